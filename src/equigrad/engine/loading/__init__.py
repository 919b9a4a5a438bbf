"""From data sets to batches: for training (`step_loader`) and for evaluation (`evaluation_loader`)."""
