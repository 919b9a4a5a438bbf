"""Feature extractors, and reading trained weights into them."""
