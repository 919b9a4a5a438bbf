"""Image classification: its settings (`recipe`, `data`), a run from top to bottom (`run`), and prediction."""
