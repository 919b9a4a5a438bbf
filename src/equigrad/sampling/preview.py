"""Preview of an epoch under a sampler, as numbers and as a table to read before training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigrad.sampling.arguments import checked_int
from equigrad.sampling.presence import CategoryPresence

# The LVIS groups, by number of training images.
GROUPS = {"rare": (1, 10), "common": (11, 100), "frequent": (101, None)}


@dataclass(frozen=True)
class GroupPreview:
    """Categories with similar numbers of images, and how often an epoch shows each of their images on average."""

    name: str
    image_range: str
    num_categories: int
    mean_repeats: float | None  # None for an empty group


@dataclass(frozen=True)
class CategoryPreview:
    """One category: how many images have it, and how many of an epoch's samples do."""

    category: int
    name: str
    num_images: int
    images_per_epoch: float


@dataclass(frozen=True)
class EpochPreview:
    """An epoch under a sampler, over all ranks and on average over epochs; `str` of it is a table."""

    num_images: int
    epoch_length: float
    num_images_without_category: int
    images_without_category_per_epoch: float
    num_categories_without_images: int
    groups: tuple[GroupPreview, ...]
    rarest: tuple[CategoryPreview, ...]
    note: str = ""

    @property
    def length_factor(self) -> float:
        """Length of the epoch over that of a plain one, which shows every image once."""
        return self.epoch_length / self.num_images

    def __str__(self) -> str:
        parts = [self._summary(), _table(self._group_rows())]
        if self.rarest:
            parts.append(_table(self._rarest_rows()))
        return "\n\n".join(parts)

    def _summary(self) -> str:
        factor = round(self.length_factor, 2)
        change = f"this makes the epoch {factor:.2f}x {'longer' if factor > 1 else 'as long'}"
        lines = [f"{self.num_images:,} images, {self.epoch_length:,.0f} samples per epoch: {change}"]
        if self.num_images_without_category:
            shown = f"{self.images_without_category_per_epoch:,.0f} samples per epoch"
            lines.append(f"{self.num_images_without_category:,} images without category: {shown}")
        if self.num_categories_without_images:
            lines.append(f"{self.num_categories_without_images:,} categories without images")
        return "\n".join([*lines, self.note] if self.note else lines)

    def _group_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("group", "images", "categories", "mean repeats")]
        for group in self.groups:
            repeats = "empty" if group.mean_repeats is None else f"{group.mean_repeats:.2f}x"
            rows.append((group.name, group.image_range, f"{group.num_categories:,}", repeats))
        return rows

    def _rarest_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("rarest", "images", "per epoch", "repeats")]
        for category in self.rarest:
            repeats = f"{category.images_per_epoch / category.num_images:.2f}x"
            rows.append((category.name, f"{category.num_images:,}", f"{category.images_per_epoch:,.1f}", repeats))
        return rows


def preview_epoch(
    presence: CategoryPresence, repeats: Tensor, names: Sequence[str] | None, num_rarest: int, note: str
) -> EpochPreview:
    """Preview an epoch that holds image i `repeats[i]` times on average."""
    if names is not None and len(names) != presence.num_classes:
        raise ValueError(f"category_names must have {presence.num_classes} entries, got {len(names)}")
    counts = presence.image_counts
    per_epoch = torch.bincount(presence.categories, repeats[presence.images], minlength=presence.num_classes)
    by_rarity = [c for c in counts.argsort(stable=True).tolist() if counts[c] > 0]
    rarest = by_rarity[: checked_int("num_rarest", num_rarest, minimum=0)]
    return EpochPreview(
        num_images=presence.num_images,
        epoch_length=float(repeats.sum()),
        num_images_without_category=int(presence.is_empty.sum()),
        images_without_category_per_epoch=float(repeats[presence.is_empty].sum()),
        num_categories_without_images=int((counts == 0).sum()),
        groups=tuple(_group_preview(name, counts, per_epoch) for name in GROUPS),
        rarest=tuple(
            CategoryPreview(c, str(c) if names is None else names[c], int(counts[c]), float(per_epoch[c]))
            for c in rarest
        ),
        note=note,
    )


def _group_preview(name: str, counts: Tensor, per_epoch: Tensor) -> GroupPreview:
    low, high = GROUPS[name]
    members = (counts >= low) & (counts <= (math.inf if high is None else high))
    image_range = f">{low - 1}" if high is None else f"{low}-{high}"
    mean = float((per_epoch[members] / counts[members]).mean()) if members.any() else None
    return GroupPreview(name, image_range, int(members.sum()), mean)


def _table(rows: list[tuple[str, ...]]) -> str:
    """Columns of equal width, the first one to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
