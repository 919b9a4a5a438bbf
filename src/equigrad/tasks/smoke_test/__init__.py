"""Recipes tried out before they cost days: two steps of each on generated data, by the code that trains."""
