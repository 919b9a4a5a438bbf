"""Detectors: what one-stage and two-stage ones share is here, the rest in their packages."""
