"""Classifiers: a backbone, a classifier layer and a loss."""
