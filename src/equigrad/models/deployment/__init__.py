"""Trained models for export: from tensors to tensors of fixed rank, without losses and statistics.

Every module here does what the evaluation of its model does, for a whole batch at once and without a loop over images,
so that `torch.export` can leave batch and image size dynamic.
"""
