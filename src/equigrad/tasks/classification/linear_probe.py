"""Training the last layer on cached features: a plain loop over a matrix in memory, without loader or run folder."""

import math
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor
from torch.utils.data import Sampler

from equigrad.data.feature_cache import FeatureDataset
from equigrad.models.classification.classifier import Classifier


def fit(
    model: Classifier,
    data: FeatureDataset,
    *,
    epochs: int = 60,
    batch_size: int = 128,
    lr: float = 0.1,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    seed: int = 0,
    sampler: Sampler[int] | None = None,
    after_epoch: Callable[[int], None] | None = None,
) -> None:
    """SGD with a cosine schedule per step; the order of the samples depends on the seed alone, not on the loss.

    Args:
        model: changed in place; frozen parts, such as those of a second stage, stay.
        data: features and labels.
        epochs, batch_size, lr, momentum, weight_decay: of the optimiser.
        seed: seed of the order of the samples, if no sampler decides it.
        sampler: gives the indices of each epoch; None takes every sample once, shuffled.
        after_epoch: called with the number of finished epochs.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)
    num_steps = epochs * math.ceil((len(data) if sampler is None else len(sampler)) / batch_size)  # type: ignore[arg-type]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for epoch in range(epochs):
        order = torch.randperm(len(data), generator=generator) if sampler is None else torch.tensor(list(sampler))
        for features, labels in _batches(data, order, batch_size):
            losses = cast(dict[str, Tensor], model(features, {"labels": labels}))
            optimizer.zero_grad()
            torch.autograd.backward(list(losses.values()))
            optimizer.step()
            schedule.step()
        if after_epoch is not None:
            after_epoch(epoch + 1)


@torch.inference_mode()
def predict(model: Classifier, data: FeatureDataset) -> list[dict[str, Tensor]]:
    """One `{"scores": (C,)}` a sample."""
    was_training = model.training
    predictions = cast(list[dict[str, Tensor]], model.eval()(data.features))
    model.train(was_training)
    return predictions


def _batches(data: FeatureDataset, order: Tensor, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    for indices in torch.split(order, batch_size):
        labels = data.labels[indices]
        yield data.features[indices], labels.float() if labels.dim() == 2 else labels  # several categories a sample
