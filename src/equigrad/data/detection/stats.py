"""Statistics of detection data: images and instances of every category and of the frequency groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.data import DetectionData
from equigrad.data.frequency import Groups, lvis_split
from equigrad.terminal import printable

GroupsBy = Literal["file", "images", "quantiles"]


@dataclass(frozen=True)
class CategoryStats:
    """Counts of one category: a row of the CSV table."""

    category: int
    id: int | str
    name: str
    images: int
    instances: int
    group: str


@dataclass(frozen=True)
class DetectionStats:
    """Counts of a data set; `str(stats)` is a table, `categories` has a row for each category.

    `presence` holds which image shows which category, as distinct pairs, for the preview of a sampler.
    """

    source: str
    num_images: int
    num_empty_images: int
    num_annotations: int
    num_crowd: int
    categories: tuple[CategoryStats, ...]
    groups: Groups
    grouped_by: str
    presence: tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the C categories, in the order of labels."""
        return tuple(row.name for row in self.categories)

    @property
    def image_counts(self) -> NDArray[np.int64]:
        """Number of images with each category, (C,)."""
        return np.array([row.images for row in self.categories], np.int64)

    def table(self, num_shown: int | None = 10) -> str:
        """Totals, groups, and the categories with most and fewest images, `num_shown` of each; None shows all."""
        return "\n\n".join([self._totals(), self._group_table(), self._category_table(num_shown)])

    def __str__(self) -> str:
        return self.table()

    def _totals(self) -> str:
        counts = self.image_counts
        present = counts[counts > 0]
        lines = [
            f"{printable(self.source)}: {self.num_images:,} images ({self.num_empty_images:,} without annotation), "
            f"{self.num_annotations:,} annotations ({self.num_crowd:,} crowd)",
            f"{len(counts):,} categories, {len(counts) - len(present):,} of them without images",
        ]
        if len(present):
            factor = present.max() / present.min()
            lines.append(
                f"images of a category: {present.max():,} to {present.min():,}, imbalance factor {factor:,.0f}"
            )
        return "\n".join(lines)

    def _group_table(self) -> str:
        rows = [(f"group ({self.grouped_by})", "categories", "without images", "images", "instances")]
        for name, members in self.groups.items():
            chosen = [self.categories[index] for index in members]
            images, instances = sum(row.images for row in chosen), sum(row.instances for row in chosen)
            empty = sum(row.images == 0 for row in chosen)
            rows.append((name, f"{len(chosen):,}", f"{empty:,}", f"{images:,}", f"{instances:,}"))
        return _aligned(rows)

    def _category_table(self, num_shown: int | None) -> str:
        ranked = sorted(self.categories, key=lambda row: (-row.images, row.category))
        if num_shown is None or len(ranked) <= 2 * num_shown:
            return _aligned([("category", "images", "instances", "group"), *map(_cells, ranked)])
        present = [row for row in ranked if row.images]
        tail = present[max(num_shown, len(present) - num_shown) :]
        rows = [*map(_cells, ranked[:num_shown]), ("...", "", "", ""), *map(_cells, tail)]
        return _aligned([("category", "images", "instances", "group"), *rows])


def detection_stats(data: DetectionData, *, groups_by: GroupsBy = "file", num_groups: int = 3) -> DetectionStats:
    """Count images and instances of every category.

    Args:
        data: what to count; crowds count as annotations but not for their category.
        groups_by: "file" takes the r, c and f of LVIS files, or "images" if the file has none; "images": rare 1-10 (and
            unseen), common 11-100, frequent above 100; "quantiles": groups with equally many categories, by number of
            images.
        num_groups: number of quantile groups.
    """
    groups, grouped_by = _groups(data, groups_by, num_groups)
    group_names = {int(index): name for name, members in groups.items() for index in members}
    columns = zip(
        data.categories.ids.tolist(), data.categories.names, data.category_counts, data.instance_counts, strict=True
    )
    rows = tuple(
        CategoryStats(index, id_, name, int(images), int(instances), group_names[index])
        for index, (id_, name, images, instances) in enumerate(columns)
    )
    return DetectionStats(
        source=data.source,
        num_images=len(data),
        num_empty_images=int(data.is_empty.sum()),
        num_annotations=data.num_annotations,
        num_crowd=int(data.is_crowd.sum()),
        categories=rows,
        groups=groups,
        grouped_by=grouped_by,
        presence=data.presence,
    )


def _groups(data: DetectionData, groups_by: GroupsBy, num_groups: int) -> tuple[Groups, str]:
    if groups_by == "file" and data.categories.frequency is not None:
        return data.groups, "by the file"
    if groups_by in ("file", "images"):
        return lvis_split(data.category_counts), "by images: 1-10, 11-100, more"
    if groups_by != "quantiles":
        raise ValueError(f"groups_by must be file, images or quantiles, got {groups_by!r}")
    if not 1 <= num_groups <= data.num_classes:
        raise ValueError(f"num_groups must be in 1..{data.num_classes}, got {num_groups}")
    ranked = np.argsort(data.category_counts, kind="stable")
    parts = np.array_split(ranked, num_groups)
    return {f"quantile {index + 1}": np.sort(part) for index, part in enumerate(parts)}, "rarest first"


def _cells(row: CategoryStats) -> tuple[str, str, str, str]:
    return printable(row.name), f"{row.images:,}", f"{row.instances:,}", row.group


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """A text table; the first column is left-aligned, the others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = (
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in rows
    )
    return "\n".join(text.rstrip() for text in texts)
