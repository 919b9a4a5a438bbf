"""Models and their parts."""
