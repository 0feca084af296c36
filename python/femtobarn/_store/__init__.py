"""The event store and its products."""
