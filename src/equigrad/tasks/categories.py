"""The categories that a run was trained on: `categories.json` in its folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equigrad.data.detection.data import DetectionData
from equigrad.data.frequency import Counts, lvis_split
from equigrad.engine import EngineError
from equigrad.errors import one_line
from equigrad.files import write_atomically
from equigrad.run_files import CATEGORIES
from equigrad.tasks.losses import CategoryCounts


@dataclass(frozen=True, eq=False)
class TrainedCategories:
    """C categories, in the order of labels.

    Args:
        names: C texts.
        groups: group of each category: rare, common or frequent.
        image_counts: training images that show it, (C,).
        instance_counts: training objects, (C,).
        ids: category ids in the annotation file, (C,); None where the folder of an earlier version does not have them.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    image_counts: Counts
    instance_counts: Counts
    ids: tuple[int | str, ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, data: DetectionData) -> "TrainedCategories":
        """The categories of training data."""
        group_of = {int(label): name for name, members in data.groups.items() for label in members}
        by_count = {int(label): name for name, members in lvis_split(data.category_counts).items() for label in members}
        names = data.categories.names
        groups = tuple(group_of.get(label) or by_count.get(label, "rare") for label in range(len(names)))
        ids = tuple(data.categories.ids.tolist())
        return cls(names, groups, data.category_counts, data.instance_counts, ids)

    @property
    def counts(self) -> CategoryCounts:
        """How often each category occurs in the training set."""
        return CategoryCounts(self.image_counts, self.instance_counts)

    def save(self, folder: Path) -> None:
        """Write the file into the folder of a run."""
        rows: list[dict[str, Any]] = [
            {"name": name, "group": group, "images": int(images), "instances": int(instances)}
            for name, group, images, instances in zip(
                self.names, self.groups, self.image_counts, self.instance_counts, strict=True
            )
        ]
        if self.ids is not None:
            rows = [{"id": number, **row} for number, row in zip(self.ids, rows, strict=True)]
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / CATEGORIES, (json.dumps(rows, indent=1) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> "TrainedCategories":
        """Read the file of a run; EngineError if it is missing or damaged."""
        file = folder / CATEGORIES
        try:
            rows = json.loads(file.read_text(encoding="utf-8"))
            names, groups = (_column(rows, field, str) for field in ("name", "group"))
            image_counts, instance_counts = (np.array(_column(rows, field, int)) for field in ("images", "instances"))
            ids = _column(rows, "id", int, str) if "id" in rows[0] else None
        except FileNotFoundError:
            raise EngineError(f"{folder}: not the run of a detector, it has no {CATEGORIES}") from None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            reason = one_line(error)
            raise EngineError(f"{file}: expected a list of name, group, images and instances ({reason})") from None
        return cls(tuple(names), tuple(groups), image_counts, instance_counts, None if ids is None else tuple(ids))


def _column(rows: Any, field: str, *kinds: type) -> list[Any]:
    values = [row[field] for row in rows]
    if not values:
        raise ValueError("no category")
    for value in values:
        if type(value) not in kinds or (isinstance(value, int) and not 0 <= value < 2**62):
            raise ValueError(f"{field} {value!r}")
    return values
