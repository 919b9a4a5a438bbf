"""Batches of images of different sizes."""

from collections.abc import Sequence

from torch import Tensor


def equal_shapes(images: Sequence[Tensor]) -> list[list[int]]:
    """Indices of the images of each shape: together in a batch they need no padding, which would change predictions."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, image in enumerate(images):
        by_shape.setdefault(tuple(image.shape), []).append(index)
    return list(by_shape.values())
