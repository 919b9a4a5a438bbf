"""Which categories are in which images, and how often an image is repeated for their sake."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from equigrad.sampling.arguments import checked_int, checked_threshold
from equigrad.sampling.scramble import scramble


@dataclass(frozen=True, eq=False)
class CategoryPresence:
    """Which categories are present in which images: P distinct pairs, sorted by image, then category."""

    images: Tensor  # (P,) int64
    categories: Tensor  # (P,) int64
    num_images: int
    num_classes: int

    @classmethod
    def of(cls, image_categories: "ImageCategories", num_classes: int | None = None) -> "CategoryPresence":
        """Read `image_categories` (see `RepeatFactorSampler`); a category listed twice in an image counts once."""
        if isinstance(image_categories, CategoryPresence):
            if num_classes is None:
                return image_categories
            return replace(image_categories, num_classes=_checked_num_classes(image_categories.categories, num_classes))
        categories, sizes = _flatten(image_categories)
        if len(sizes) == 0:
            raise ValueError("image_categories must describe at least one image, got none")
        num_classes = _checked_num_classes(categories, num_classes)
        pairs = torch.unique(torch.repeat_interleave(sizes) * num_classes + categories)
        divisor = max(num_classes, 1)  # without categories there are no pairs; 1 avoids a division by zero
        return cls(pairs // divisor, pairs % divisor, len(sizes), num_classes)

    @property
    def image_counts(self) -> Tensor:
        """Number of images that contain each category, (C,) int64."""
        return torch.bincount(self.categories, minlength=self.num_classes)

    @property
    def is_empty(self) -> Tensor:
        """Which images have no category, (I,) bool."""
        return torch.bincount(self.images, minlength=self.num_images) == 0

    @cached_property
    def checksum(self) -> int:
        """A number that differs when another category is in any image."""
        return int(scramble(scramble(torch.tensor(0), self.images), self.categories).sum())


ImageCategories = Sequence[int] | Sequence[Iterable[int]] | Sequence[Tensor] | Tensor | CategoryPresence


def category_repeat_factors(
    image_categories: ImageCategories, *, threshold: float = 0.001, num_classes: int | None = None
) -> Tensor:
    r"""Repeat factor of every category, $r_c = \max(1, \sqrt{t / f_c})$, (C,) float64.

    $f_c$ is the share of all images, those without category included, that contain c. A category without images
    has factor 1: there is nothing to repeat.
    """
    presence = CategoryPresence.of(image_categories, num_classes)
    frequency = presence.image_counts.double() / presence.num_images
    factors = (checked_threshold(threshold) / frequency).sqrt().clamp(min=1)
    return factors.masked_fill(frequency == 0, 1)


def image_repeat_factors(
    image_categories: ImageCategories, *, threshold: float = 0.001, num_classes: int | None = None
) -> Tensor:
    """Repeat factor of every image, the largest of its categories, (I,) float64; 1 for an image without category."""
    presence = CategoryPresence.of(image_categories, num_classes)
    category_factors = category_repeat_factors(presence, threshold=threshold)
    factors = torch.ones(presence.num_images, dtype=torch.float64)
    return factors.scatter_reduce(0, presence.images, category_factors[presence.categories], "amax")


def suggest_threshold(
    image_categories: ImageCategories, *, quantile: float = 0.5, num_classes: int | None = None
) -> float:
    """Threshold for `RepeatFactorSampler` that fits the data: a quantile (the median) of the category frequencies.

    RFS repeats exactly the categories rarer than its threshold. The usual 0.001 suits LVIS, where most categories
    are in fewer than one image of a thousand; on a set of few categories none is that rare, and 0.001 does nothing. At
    the median the rarer half of the categories is repeated; a larger quantile repeats more of them and more often.
    Categories without images are left out.
    """
    if not 0 <= quantile <= 1:
        raise ValueError(f"quantile must be in [0, 1], got {quantile}")
    presence = CategoryPresence.of(image_categories, num_classes)
    counts = presence.image_counts
    if not counts.any():
        raise ValueError(f"no threshold fits data without categories, got {presence.num_images} images without any")
    return float((counts[counts > 0].double() / presence.num_images).quantile(quantile))


def _flatten(image_categories: ImageCategories) -> tuple[Tensor, Tensor]:
    """All category ids in a row, (sum of sizes,), and how many each image has, (I,)."""
    if isinstance(image_categories, Tensor):
        if image_categories.dim() != 1:
            raise ValueError(f"an image_categories tensor must be (images,), got {tuple(image_categories.shape)}")
        categories = _checked_ids(image_categories)
        return categories, torch.ones_like(categories)
    if isinstance(image_categories, str | bytes | Mapping | Set) or not isinstance(image_categories, Iterable):
        raise TypeError(f"image_categories must be a sequence with one entry per image, got {type(image_categories)}")
    entries: list[Any] = [entry.tolist() if isinstance(entry, Tensor) else entry for entry in image_categories]
    if entries and not any(isinstance(entry, Iterable) for entry in entries):
        entries = [(entry,) for entry in entries]
    lists = [_entry_ids(image, entry) for image, entry in enumerate(entries)]
    sizes = torch.tensor([len(ids) for ids in lists], dtype=torch.int64)
    flat = list(chain.from_iterable(lists))
    try:
        return _checked_ids(torch.tensor(flat) if flat else torch.zeros(0, dtype=torch.int64)), sizes
    except (ValueError, RuntimeError) as error:  # what torch raises for strings, nested lists and the like
        raise TypeError(f"image_categories must hold integer category ids: {error}") from error


def _entry_ids(image: int, entry: Any) -> tuple[Any, ...]:
    if not isinstance(entry, Iterable) or isinstance(entry, str | bytes):
        raise TypeError(f"image_categories[{image}] must be an iterable of ints as in the other images, got {entry!r}")
    return tuple(entry)


def _checked_ids(ids: Tensor) -> Tensor:
    if ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise TypeError(f"category ids must be integers, got {ids.dtype}")
    if ids.dim() != 1:
        raise TypeError(f"category ids must be integers, got lists of {ids.shape[1]} of them")
    return ids.detach().to("cpu", torch.int64)


def _checked_num_classes(categories: Tensor, num_classes: int | None) -> int:
    smallest, largest = (int(categories.min()), int(categories.max())) if len(categories) else (0, -1)
    if smallest < 0:
        raise ValueError(f"category ids must be 0 or more, got {smallest}; an image without category has no ids")
    if num_classes is None:
        return largest + 1
    num_classes = checked_int("num_classes", num_classes, minimum=1)
    if largest >= num_classes:
        raise ValueError(f"category ids must be below num_classes = {num_classes}, got {largest}")
    return num_classes
