"""The categories of an image."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.analysis.pictures.predictions import RankedLabel, draw_labels
from equigrad.analysis.pictures.text import category_text
from equigrad.data.images.sources import ImageSource
from equigrad.tasks.classification.top_predictions import NUM_BEST
from equigrad.tasks.prediction import supervision


@dataclass(frozen=True, eq=False)
class Classification:
    """Categories with a score of at least the threshold, best first.

    Args:
        source: the image.
        labels: (K,) categories.
        names: their K names.
        scores: (K,).
        groups: group of each category by its training images: many, medium or few.
        num_shown: how many are listed and drawn; None is all.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "label", "score", "group")

    source: ImageSource
    labels: NDArray[np.int64]
    names: tuple[str, ...] = field(repr=False)
    scores: NDArray[np.float32]
    groups: tuple[str, ...] = field(repr=False)
    num_shown: int | None = field(default=NUM_BEST, repr=False)

    @property
    def path(self) -> Path | None:
        """The file of the image, if there is one."""
        return self.source.path

    @property
    def summary(self) -> str:
        """The best categories with their scores and groups."""
        return (
            ", ".join(f"{name} {100 * score:.1f} % ({group})" for name, _, score, group in self.rows()) or "no category"
        )

    def rows(self) -> list[tuple[str, int, float, str]]:
        """Name, label, score and group of the best categories."""
        columns = (self.names, self.labels.tolist(), self.scores.tolist(), self.groups)
        return list(zip(*(column[: self.num_shown] for column in columns), strict=True))

    def draw(self) -> Image.Image:
        """The image with its best categories beside it."""
        best = [RankedLabel(category_text(name, label), score, group) for name, label, score, group in self.rows()]
        return draw_labels(self.source.read(), best)

    def to_supervision(self) -> Any:
        """`supervision.Classifications`, if that library is installed."""
        return supervision().Classifications(class_id=self.labels, confidence=self.scores)
