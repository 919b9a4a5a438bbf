"""Training the last layer on cached features: a plain loop over a matrix in memory, without loader or run folder."""

import math
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from equigrad.models.classification import Classifier
from equigrad.models.feature_cache import FeatureDataset


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
) -> None:
    """SGD with a cosine schedule per step; the order of the samples depends on the seed alone, not on the loss."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)
    num_steps = epochs * math.ceil(len(data) / batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(epochs):
        for features, labels in _batches(data, batch_size, generator):
            losses = cast(dict[str, Tensor], model(features, {"labels": labels}))
            optimizer.zero_grad()
            torch.autograd.backward(list(losses.values()))
            optimizer.step()
            schedule.step()


@torch.inference_mode()
def predict(model: Classifier, data: FeatureDataset) -> list[dict[str, Tensor]]:
    """One `{"scores": (C,)}` a sample."""
    was_training = model.training
    predictions = cast(list[dict[str, Tensor]], model.eval()(data.features))
    model.train(was_training)
    return predictions


def standardized(train: FeatureDataset, *others: FeatureDataset) -> list[FeatureDataset]:
    """The data sets with every feature scaled by the mean and standard deviation it has in the first."""
    std, mean = torch.std_mean(train.features, dim=0)
    scale = std.clamp(min=1e-6)
    return [
        FeatureDataset((data.features - mean) / scale, data.labels, class_names=data.class_names, paths=data.paths)
        for data in (train, *others)
    ]


def _batches(data: FeatureDataset, batch_size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    for indices in torch.split(torch.randperm(len(data), generator=generator), batch_size):
        yield data.features[indices], data.labels[indices]
