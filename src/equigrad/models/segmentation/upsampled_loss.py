"""The loss of a segmenter: the decoder's logits, a quarter or an eighth as large as the image, against every pixel.

A wrapper decides at which size logits and labels are compared. All are called with logits (N, K, h, w) and labels
(N, H, W):

    LabelResolutionLoss(loss)       # logits upsampled, as published: two tensors of (N, K, H, W) in float32
    TiledLoss(loss)                 # the same loss, gradient and statistics, but some rows at a time
    DecoderResolutionLoss(loss)     # labels downsampled: 16 or 64 times cheaper, but small objects lose their labels

Logits of 16 x 150 x 512 x 512 take 2.5 GB in float32. A loss of `equigrad` keeps only its gradient, so the first one
takes two such tensors in forward and one until backward. The second one takes a few tiles of 16 MB at any size.
`benchmarks/segmentation_memory.py` measures both.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.counted_samples import num_counted
from equigrad.models.segmentation.upsampling import MAX_ELEMENTS, row_tiles, upsample
from equigrad.statistics import one_batch


class LabelResolutionLoss(nn.Module):
    """Upsample the logits to the size of the labels.

    Args:
        loss: called with logits (N, K, H, W) and labels (N, H, W).
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor, **options: Tensor) -> Tensor:
        """Loss of logits (N, K, h, w) against labels (N, H, W), with the options of the loss."""
        # Only the loss refers to the upsampled logits, so that they are freed before backward.
        loss: Tensor = self.loss(F.interpolate(logits, size=labels.shape[-2:], mode="bilinear"), labels, **options)
        return loss

    def num_counted(self, labels: Tensor) -> float | None:
        """Number of pixels that the loss is the mean of; None if it is not a mean over pixels."""
        return num_counted(self.loss, labels)


class DecoderResolutionLoss(nn.Module):
    """Downsample the labels to the size of the logits: each logit meets the label at its centre.

    Args:
        loss: called with logits (N, K, h, w) and labels (N, h, w).
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Loss of logits (N, K, h, w) against labels (N, H, W)."""
        for dim in (1, 2):
            size, index = labels.shape[dim], torch.arange(logits.shape[dim + 1], device=labels.device)
            labels = labels.index_select(dim, (2 * index + 1) * size // (2 * logits.shape[dim + 1]))
        loss: Tensor = self.loss(logits, labels)
        return loss


class TiledLoss(nn.Module):
    """Upsample the logits and reduce them in tiles of some rows; loss, gradient and statistics are those of the whole.

    The tiles are `one_batch`: the loss has the weights of earlier batches in all of them, and its statistics move once.
    That is exact for a loss that is a mean over pixels and has no state but gradient statistics: cross-entropy, BCE,
    focal loss, their equalization losses and margins from counts. Others (Seesaw, LADE, LDAM, BAGS, the federated loss,
    an objectness branch) depend on the batch as a whole and are refused.

    Args:
        loss: a `CategoryLoss` with reduction "mean"; called with logits (N, K, R, W), labels (N, R, W), `normalizer`.
        max_elements: most elements of a tile, which has at least one row of the whole batch.
    """

    def __init__(self, loss: nn.Module, *, max_elements: int = MAX_ELEMENTS) -> None:
        super().__init__()
        others = [name for name in loss.state_dict() if not name.startswith("statistics.")]
        if others:
            raise ValueError(f"{type(loss).__name__} cannot be tiled: it has state besides its statistics, {others[0]}")
        self.loss = loss
        self.max_elements = max_elements
        self.is_checked = False

    @property
    def ignore_index(self) -> int:
        """The label of pixels that do not count, that of the loss inside."""
        ignore_index: Any = self.loss.ignore_index
        return int(ignore_index)

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: Tensor | None = None) -> Tensor:
        """Loss of logits (N, K, h, w) against labels (N, H, W), divided by the normalizer or by the counted pixels."""
        if not self.is_checked:
            self._check_mean_over_pixels(logits)
        divisor = (labels != self.ignore_index).sum(dtype=torch.float64) if normalizer is None else normalizer
        with one_batch(self.loss, divisor=divisor, joins=True):
            total, gradient = self._sum_tiles(logits, labels)
        divisor = divisor.clamp(min=1) if normalizer is None else divisor
        if gradient is None:
            return (total / divisor).to(torch.promote_types(logits.dtype, torch.float32))
        loss: Tensor = _KnownGradient.apply(logits, (total / divisor).to(gradient.dtype), gradient.div_(divisor))
        return loss

    def num_counted(self, labels: Tensor) -> float | None:
        """Number of pixels that the loss is the mean of."""
        return num_counted(self.loss, labels)

    def _sum_tiles(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Summed loss and, where gradients are enabled, its gradient (N, K, h, w)."""
        total = logits.new_zeros((), dtype=torch.float64)
        gradient = None
        if torch.is_grad_enabled():
            gradient = torch.zeros_like(logits, dtype=torch.promote_types(logits.dtype, torch.float32))
        for tile in row_tiles(logits, (labels.shape[-2], labels.shape[-1]), self.max_elements):
            band = logits.detach()[:, :, tile.band].requires_grad_(gradient is not None)
            value = self.loss(upsample(band, tile, labels.shape[-1]), labels[:, tile.rows], normalizer=1.0)
            total += value.detach()
            if gradient is not None:
                gradient[:, :, tile.band] += torch.autograd.grad(value, band)[0]
        return total, gradient

    @torch.no_grad()
    def _check_mean_over_pixels(self, logits: Tensor) -> None:
        """Refuse a loss that is not a mean over pixels, by computing it for four pixels of which one is ignored."""
        num_logits = logits.shape[1]
        probe = torch.linspace(-2, 2, 4 * num_logits, dtype=torch.float64, device=logits.device).view(1, num_logits, 4)
        labels = torch.tensor([[0, num_logits - 1, self.ignore_index, 0]], device=logits.device)
        whole = self.loss(probe, labels)
        halves = zip(probe.chunk(2, dim=2), labels.chunk(2, dim=1), strict=True)
        parts = sum(self.loss(*half, normalizer=1.0) for half in halves) / 3
        if not torch.isclose(whole, parts, rtol=1e-4):
            raise ValueError(f"{type(self.loss).__name__} cannot be tiled: it is not a mean over the counted pixels")
        self.is_checked = True


class _KnownGradient(torch.autograd.Function):
    """A loss whose gradient was formed with it: backward only scales it."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
        # On the context: `torch.utils.checkpoint` would replace a saved tensor by that of a second pass.
        ctx.gradient = gradient
        ctx.dtype = logits.dtype
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            # Without a graph of the gradient, a penalty on it would silently train nothing.
            raise RuntimeError(
                "a TiledLoss cannot be differentiated twice: create_graph must be False. Use a LabelResolutionLoss "
                'around a loss with reduction="none"'
            )
        return (ctx.gradient * upstream).to(ctx.dtype), None, None
