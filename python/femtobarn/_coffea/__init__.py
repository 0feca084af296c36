"""coffea on femtobarn: events, runners and filesets."""
