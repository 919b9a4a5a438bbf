"""Feature pyramids."""
