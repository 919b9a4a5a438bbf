"""The course of a run: a package per task, each with the settings, the run from top to bottom, and prediction."""
