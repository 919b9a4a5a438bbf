"""The targets of a batch of images, as detectors take them."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

Target = Mapping[str, Any]
"""Of one image: `boxes` (G, 4), `labels` (G,), perhaps `masks`, and `image_size`, height and width without padding."""


def check_targets(images: Tensor, targets: Sequence[Target] | None, *, training: bool) -> None:
    """Refuse a batch without the targets that training needs, or with those of another number of images."""
    if training and targets is None:
        raise ValueError("training needs targets; call eval() for predictions")
    if targets is not None and len(targets) != len(images):
        raise ValueError(f"expected targets of {len(images)} images, got {len(targets)}")


def image_sizes(images: Tensor, targets: Sequence[Target] | None) -> list[tuple[int, int]]:
    """Height and width of each image without padding; those of the batch where the targets do not say."""
    padded = (images.shape[2], images.shape[3])
    sizes = [padded] * len(images) if targets is None else [target.get("image_size", padded) for target in targets]
    return [(int(height), int(width)) for height, width in sizes]
