"""Launches and bytes of one training step of a loss on a GPU, counted without one.

    python benchmarks/launches.py
    python benchmarks/launches.py --kernels blocks          # as on a CPU: what it was before there were kernels

Tensors are fake: they have a shape and a device, and no memory. A step is forward, statistics and backward. Every
operation that writes memory is one launch, views are none; a host that waited for the device would raise an error.
The least time is the bytes of logits and gradient over the bandwidth of a card: arithmetic, not a measurement.
"""

import argparse
import os
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import equigrad
from equigrad.losses.kernels import launch

SHAPES = ["256x1000", "1024x1203", "20000x1203", "100000x1203", "512x100000", "4x150x512x512"]
BANDWIDTH = {"A100": 2.0e12, "H100": 3.35e12, "RTX 4090": 1.0e12}  # bytes a second, from the data sheets


def focal(logits: Tensor, labels: Tensor) -> Tensor:
    from torchvision.ops import sigmoid_focal_loss

    return sigmoid_focal_loss(logits, one_hot(logits, labels), reduction="sum")


def one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.zeros_like(logits).scatter_(1, labels.unsqueeze(1), 1.0)


PLAIN = {
    "F.cross_entropy": F.cross_entropy,
    "F.binary_cross_entropy_with_logits": lambda z, y: F.binary_cross_entropy_with_logits(z, one_hot(z, y)),
    "sigmoid_focal_loss": focal,
}
OURS = {
    "SigmoidEqualizationLoss": equigrad.SigmoidEqualizationLoss,
    "SoftmaxEqualizationLoss": equigrad.SoftmaxEqualizationLoss,
    "EqualizedFocalLoss": equigrad.EqualizedFocalLoss,
    "EqualizedQualityFocalLoss": equigrad.EqualizedQualityFocalLoss,
    "SigmoidEqualizationLoss, objectness": lambda num_classes: equigrad.WithObjectness(
        equigrad.SigmoidEqualizationLoss(num_classes)
    ),
    "EqualizedQualityFocalLoss, objectness": lambda num_classes: equigrad.WithObjectness(
        equigrad.EqualizedQualityFocalLoss(num_classes)
    ),
}
OURS_IN_PARTS = {
    "SoftmaxEqualizationLoss, objectness": lambda num_classes: equigrad.WithObjectness(
        equigrad.SoftmaxEqualizationLoss(num_classes)
    ),
}
"""Whose backward is a chain of ordinary operations: the softmax has no column for background."""


class Counts(NamedTuple):
    forward: int
    backward: int | None  # None for chains of ordinary operations, whose backward only autograd can run


class CountedOperations(TorchDispatchMode):
    """Counts what writes memory on the device; views and allocations launch nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        result = operation(*arguments, **(options or {}))
        name = operation.name()
        is_question = name.startswith("prim::") or name == "aten::promote_types"
        is_view = operation.is_view or any(word in name for word in ("empty", "detach", "alias", "_unsafe_view"))
        outputs = [value for value in torch.utils._pytree.tree_leaves(result) if isinstance(value, Tensor)]
        has_entries = any(value.numel() for value in outputs) or not outputs
        if not is_question and not is_view and has_entries:
            self.count += 1
        return result


def count(name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Counts:
    """Launches of a step."""
    with FakeTensorMode(), torch.device("cuda"), launch.collected() as launches:
        loss = PLAIN[name] if name in PLAIN else (OURS | OURS_IN_PARTS)[name](shape[1])
        num_columns = shape[1] + ("objectness" in name)
        logits = torch.empty(shape[0], num_columns, *shape[2:], dtype=dtype, requires_grad=True)
        labels = torch.zeros(shape[0], *shape[2:], dtype=torch.int64)
        extra = [torch.zeros(labels.shape)] if "Quality" in name else []
        with CountedOperations() as in_forward:
            value = loss(logits, labels, *extra)
        num_kernels = len(launches)
        if not hasattr(value.grad_fn, "apply"):
            return Counts(in_forward.count + num_kernels, None)
        upstream = torch.ones_like(value)
        with CountedOperations() as in_backward:
            value.grad_fn.apply(upstream)  # autograd itself would look for the device
        return Counts(in_forward.count + num_kernels, in_backward.count + len(launches) - num_kernels)


def count_meter(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Counts:
    """Launches that a `GradientMeter` adds to a step of any loss: in `watch`, and when backward is at the logits."""
    with FakeTensorMode(), torch.device("cuda"):
        meter = equigrad.GradientMeter(shape[1])
        logits = torch.empty(shape, dtype=dtype, requires_grad=True)
        labels = torch.zeros(shape[0], *shape[2:], dtype=torch.int64)
        with CountedOperations() as in_forward:
            meter.watch(logits, labels)
        gradient = torch.empty_like(logits)
        (hook,) = logits._backward_hooks.values()  # type: ignore[union-attr]
        with CountedOperations() as in_backward:
            hook(gradient)  # autograd itself would look for the device
    return Counts(in_forward.count, in_backward.count)


def least_milliseconds(shape: tuple[int, ...], card: str, element_size: int = 4) -> float:
    """Logits read once, gradient written once, and read and written once more by backward."""
    return 1e3 * 4 * torch.Size(shape).numel() * element_size / BANDWIDTH[card]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--kernels", default="auto", choices=["auto", "torch", "blocks"])
    parsed = parser.parse_args()
    os.environ["EQUIGRAD_KERNELS"] = parsed.kernels
    shapes = [tuple(map(int, text.split("x"))) for text in parsed.shapes]
    print(f"Launches of forward + backward, EQUIGRAD_KERNELS={parsed.kernels}, torch {torch.__version__}\n")
    print(f"| loss | {' | '.join(parsed.shapes)} |")
    print("|---" * (len(shapes) + 1) + "|")
    for name in [*PLAIN, *OURS, *OURS_IN_PARTS]:
        cells = []
        for shape in shapes:
            counts = count(name, shape)
            cells.append(f"{counts.forward}" if counts.backward is None else f"{counts.forward} + {counts.backward}")
        print(f"| {name} | {' | '.join(cells)} |")
    added = [count_meter(shape) for shape in shapes]
    print(f"| a `GradientMeter` adds | {' | '.join(f'{counts.forward} + {counts.backward}' for counts in added)} |")
    print("\nLeast time of a step in ms, float32: 4 times the logits over the bandwidth of the card\n")
    print(f"| card | {' | '.join(parsed.shapes)} |")
    print("|---" * (len(shapes) + 1) + "|")
    for card in BANDWIDTH:
        print(f"| {card} | {' | '.join(f'{least_milliseconds(shape, card):.3f}' for shape in shapes)} |")


if __name__ == "__main__":
    main()
