"""One function over all events (`process`)."""
