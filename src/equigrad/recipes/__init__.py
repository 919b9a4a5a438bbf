"""What can be trained: the only place where losses, models, data and engine meet."""
