"""Pictures of predictions: labels, objects and label maps drawn on images."""
