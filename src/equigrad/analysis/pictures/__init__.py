"""Predictions drawn on images."""
