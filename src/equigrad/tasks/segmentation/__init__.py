"""Semantic segmentation: its settings (`recipe`, `data`, `heads`), a run from top to bottom (`run`), and prediction."""
