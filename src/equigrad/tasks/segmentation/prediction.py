"""The category of every pixel of an image."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.analysis.pictures.overlays import draw_label_map
from equigrad.data.images.sources import ImageSource
from equigrad.tasks.prediction import supervision

_NUM_NAMED = 5  # categories in the summary


@dataclass(frozen=True, eq=False)
class Segmentation:
    """A label map.

    Args:
        source: the image.
        label_map: (H, W) like the image: 0 … C-1, or `equigrad.BACKGROUND` where the score is below the threshold.
        class_names: names of all C categories.
        tail: categories of the tail group.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "label", "pixels", "share", "group")

    source: ImageSource
    label_map: NDArray[np.int16]
    class_names: tuple[str, ...] = field(repr=False)
    tail: frozenset[int] = field(repr=False)

    @property
    def path(self) -> Path | None:
        """The file of the image, if there is one."""
        return self.source.path

    @cached_property
    def pixel_counts(self) -> NDArray[np.int64]:
        """Pixels of each category, (C,)."""
        return np.bincount(self.label_map[self.label_map >= 0], minlength=len(self.class_names))

    @property
    def labels(self) -> NDArray[np.int64]:
        """(K,) categories of the image, the one with the most pixels first."""
        largest = np.argsort(-self.pixel_counts, kind="stable")
        return largest[: np.count_nonzero(self.pixel_counts)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of these K categories."""
        return tuple(self.class_names[label] for label in self.labels)

    @property
    def summary(self) -> str:
        """The largest categories with their shares of the image."""
        rows = self.rows()
        named = [
            f"{name} {100 * share:.1f} %{' (tail)' if group else ''}" for name, _, _, share, group in rows[:_NUM_NAMED]
        ]
        more = f" and {len(rows) - len(named)} more" if len(rows) > len(named) else ""
        return (", ".join(named) + more) or "no category"

    def rows(self) -> list[tuple[str, int, int, float, str]]:
        """Name, label, pixels, share of the image and group, tail or none, of each category of the image."""
        counts = self.pixel_counts[self.labels].tolist()
        return [
            (self.class_names[label], label, count, count / self.label_map.size, "tail" if label in self.tail else "")
            for label, count in zip(self.labels.tolist(), counts, strict=True)
        ]

    def draw(self) -> Image.Image:
        """The image tinted with the colours of its categories; background stays clear, the tail is outlined."""
        return draw_label_map(self.source.read(), self.label_map, self.class_names, rare=self.tail)

    def to_supervision(self) -> Any:
        """`supervision.Detections` with a mask for each category, if that library is installed."""
        library = supervision()
        masks = self.label_map == self.labels[:, None, None]
        return library.Detections(
            xyxy=library.mask_to_xyxy(masks).astype(np.float32),
            mask=masks,
            class_id=self.labels,
            data={"class_name": np.array(self.names, dtype=np.str_)},
        )
