"""Test images for the page of a comparison: the predictions of each run for categories that changed."""
