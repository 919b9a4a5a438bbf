"""The detections of a whole test set as arrays, which take tens of bytes for each detection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Floats
from equigrad.evaluation.detection.packed_masks import PackedMasks

LARGEST_TABLE = 1 << 24  # entries of four bytes


@dataclass(frozen=True, eq=False)
class Predictions:
    """N detections in the order of their file."""

    images: NDArray[np.int32]  # (N,) indices of images
    labels: NDArray[np.int32]  # (N,) indices of categories
    boxes: Floats  # (N, 4) x, y, width, height
    scores: Floats  # (N,)
    areas: Floats  # (N,) of the boxes, or of the masks if there are no boxes
    masks: PackedMasks | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def joined(cls, parts: Sequence["Predictions"]) -> "Predictions":
        """All parts in one, in order."""
        masks = [part.masks for part in parts if part.masks is not None]
        return cls(
            np.concatenate([np.zeros(0, np.int32), *(part.images for part in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(part.labels for part in parts)]),
            np.concatenate([np.zeros((0, 4)), *(part.boxes for part in parts)]),
            np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
            np.concatenate([np.zeros(0), *(part.areas for part in parts)]),
            PackedMasks.joined(masks) if masks else None,
        )


class IdTable:
    """Looks up the index of an image or category by its id in the annotation file."""

    def __init__(self, ids: NDArray[np.integer[Any]]) -> None:
        self.order = np.argsort(ids, kind="stable").astype(np.int32)
        self.sorted = np.asarray(ids)[self.order]
        # Ids are mostly small numbers: then they are looked up in a table, and not searched for.
        self.table = np.full(0, -1, np.int32)
        if len(ids) and self.sorted[0] >= 0 and self.sorted[-1] < LARGEST_TABLE:
            self.table = np.full(self.sorted[-1] + 1, -1, np.int32)
            self.table[self.sorted] = self.order

    def indices(self, ids: NDArray[Any]) -> NDArray[np.int32]:
        """The indices of ids, (N,); ValueError if one is not in the table."""
        if len(self.table) and len(ids) and ids.min() >= 0 and ids.max() < len(self.table):
            found: NDArray[np.int32] = self.table[ids]
        elif len(self.sorted):
            ranks = np.searchsorted(self.sorted[1:], ids, side="right")
            found = np.where(self.sorted[ranks] == ids, self.order[ranks], -1)
        else:
            found = np.full(len(ids), -1, np.int32)
        if (found < 0).any():
            raise ValueError("ids of the annotations")
        return found

    def has(self, number: int) -> bool:
        """Whether this is the id of an image or category."""
        return bool((self.sorted == number).any())
