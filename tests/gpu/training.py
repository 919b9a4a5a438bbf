"""Some steps of a loss on a device, and the same on the CPU to compare with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import equigrad
from losses.all_losses import CASES
from losses.kernels.batches import in_layout

# Random numbers of the host decide what they count: not to be captured in a CUDA graph.
DRAWING = ["federated", "federated of qualities", "BAGS"]
CAPTURABLE = [name for name in CASES if name not in DRAWING]
EQUALIZATION = ["Sigmoid-EQL", "Softmax-EQL", "EFL", "EQFL"]


class Trained(NamedTuple):
    steps: list[tuple[Tensor, Tensor]]  # loss and gradient of each
    state: dict[str, Any]


def train(loss: nn.Module, batches: list[list[Tensor]], *, layout: str = "dense", **options: Any) -> Trained:
    """Loss and gradient of a step for each batch, and the state after them; all on the CPU."""
    steps = []
    for logits, *others in batches:
        logits = in_layout(logits, layout).detach().requires_grad_()
        value = loss(logits, *others, **options)
        value.backward()
        assert logits.grad is not None
        steps.append((value.detach().cpu(), logits.grad.cpu()))
    return Trained(steps, {name: value.cpu() for name, value in loss.state_dict().items()})


def on_device(batches: list[list[Tensor]], device: torch.device) -> list[list[Tensor]]:
    return [[value.detach().to(device) for value in batch] for batch in batches]


@contextmanager
def cpu_blocks() -> Iterator[None]:
    """The losses are computed in the blocks of a CPU, whatever the test has chosen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIGRAD_KERNELS", "blocks")
        yield


def equalization_loss(name: str, num_classes: int) -> nn.Module:
    """A loss in mid-training."""
    loss = CASES[name].loss_class(num_classes)
    generator = torch.Generator().manual_seed(1)
    loss.statistics.positive.copy_(torch.rand(num_classes, generator=generator, dtype=torch.float64))
    loss.statistics.negative.copy_(torch.rand(num_classes, generator=generator, dtype=torch.float64))
    return loss


def equalization_batch(name: str, shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    """Logits, labels with background and ignored samples where the loss takes them, and a quality."""
    generator = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(shape, generator=generator)).to(dtype)
    samples = (shape[0], *shape[2:])
    lowest = 0 if CASES[name].is_softmax else equigrad.BACKGROUND
    labels = torch.randint(lowest, shape[1], samples, generator=generator)
    labels.view(-1)[1::5] = equigrad.IGNORE
    quality = [torch.rand(samples, generator=generator)] if CASES[name].takes_quality else []
    return [logits, labels, *quality]
