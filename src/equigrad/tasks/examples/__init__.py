"""Test images for the page of a comparison: what each run said about categories that changed."""
