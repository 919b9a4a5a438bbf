"""What happens in a run: a package a task, each with the settings, the run from top to bottom, and prediction."""
