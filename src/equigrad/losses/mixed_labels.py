"""Soft labels of mixed samples."""

import torch
from torch import Tensor

from equigrad.labels import BACKGROUND
from equigrad.losses.inputs import check_values


def mixed_labels(first: Tensor, second: Tensor, share: Tensor | float, num_classes: int) -> Tensor:
    """Soft labels, (N, C, ...) float32, of samples that mixup or cutmix made from two others.

        images = share * images + (1 - share) * images.flip(0)
        loss = criterion(model(images), equigrad.mixed_labels(labels, labels.flip(0), share, num_classes))

    A loss of soft labels uses the shares, also in its statistics. Two calls with one label each, weighted outside,
    would record both gradients in full.

    Args:
        first: (N, ...) class indices; BACKGROUND adds nothing, for sigmoid losses.
        second: the same, of the other samples of the mixtures.
        share: lambda in [0, 1], how much of a mixture the first sample is: one number, (N,), or of the labels' shape.
        num_classes: C, without background.
    """
    if first.shape != second.shape or first.dtype != torch.int64 or second.dtype != torch.int64:
        raise ValueError(
            f"both labels must be int64 of the same shape, got {first.dtype} of shape {tuple(first.shape)} and "
            f"{second.dtype} of shape {tuple(second.shape)}"
        )
    shares = torch.as_tensor(share, dtype=torch.float32, device=first.device)
    if shares.shape not in ((), first.shape[:1], first.shape):
        raise ValueError(
            f"share must be one number, ({len(first)},) or of the labels' shape, got {tuple(shares.shape)}"
        )
    if shares.dim() == 1:
        shares = shares.view(-1, *[1] * (first.dim() - 1))
    shares = shares.expand(first.shape)
    check_values((shares >= 0) & (shares <= 1), shares, "share must be within [0, 1]")
    mixed = shares.new_zeros(first.shape[0], num_classes, *first.shape[1:])
    for labels, part in ((first, shares), (second, 1 - shares)):
        allowed = (labels >= BACKGROUND) & (labels < num_classes)
        check_values(allowed, labels, f"labels must be 0 ... {num_classes - 1}, or BACKGROUND (-1), to be mixed")
        own = torch.where(labels >= 0, part, 0.0)
        mixed.scatter_add_(1, labels.clamp(min=0).unsqueeze(1), own.unsqueeze(1))
    return mixed
