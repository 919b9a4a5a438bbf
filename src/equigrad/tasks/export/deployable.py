"""What a task gives to the export: a model from tensors to tensors, and how to compare it with the run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image
from torch import Tensor, nn

from equigrad.tasks.export.comparison import Difference

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Deployable:
    """A run that can be exported.

    Args:
        model: from the inputs to the outputs; in evaluation mode, on the CPU.
        inputs: names of the inputs, each with its open dimensions by name.
        multiples: numbers of which the size of an open dimension must be a multiple; by default 1.
        outputs: names of the outputs.
        metadata: what a deployer has to know, as JSON.
        prepare: the inputs for an RGB image, as a batch of one.
        run: the model of the run itself, for the same inputs.
        compare: how far outputs are from what the run gives.
        test_images: the test set of the run; ValueError or OSError if it is not there.
        can_fix_size: whether `--image-size` would replace images of any size by images of one size.
    """

    model: nn.Module
    inputs: Mapping[str, Mapping[int, str]]
    multiples: Mapping[str, int]
    outputs: Sequence[str]
    metadata: Mapping[str, Any]
    prepare: Callable[[Image.Image], Tensors]
    run: Callable[..., list[dict[str, Tensor]]]
    compare: Callable[[list[dict[str, Tensor]], Sequence[Tensor]], Difference]
    test_images: Callable[[], Sequence[Callable[[], Image.Image]]]
    can_fix_size: bool = False
