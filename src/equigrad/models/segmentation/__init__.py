"""Semantic segmentation: an encoder, a head, a loss at some resolution, inference."""
