"""Helpers that several rooms use."""
