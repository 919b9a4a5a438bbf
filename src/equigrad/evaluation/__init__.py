"""Metrics with the groups by frequency that papers report."""
