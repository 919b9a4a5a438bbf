"""Detection and instance segmentation: settings, a run from top to bottom (`run`), and prediction."""
