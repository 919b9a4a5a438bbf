"""Smoke tests of recipes: two training steps of each on generated data, with the code of real runs."""
