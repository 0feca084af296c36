"""Opening and reading ntuples and trees."""
