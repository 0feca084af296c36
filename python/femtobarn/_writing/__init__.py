"""Writing ntuples."""
