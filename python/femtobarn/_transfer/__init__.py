"""Files into an event store (`ingest`) and out of it (`export`)."""
