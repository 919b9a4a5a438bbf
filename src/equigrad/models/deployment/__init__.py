"""Trained models as they leave the project: from tensors to tensors of fixed rank, without losses and statistics.

Every module here does what the evaluation of its model does, for a whole batch at once and without a loop over images,
so that `torch.export` can keep the batch and the size of the images open.
"""
