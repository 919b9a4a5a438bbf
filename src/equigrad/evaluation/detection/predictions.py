"""The detections of a whole test set as arrays, which take tens of bytes for each detection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Floats
from equigrad.evaluation.detection.packed_masks import PackedMasks


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
