"""What the detection metrics need of a data set; `equigrad.data` has it, and any object with these columns will do."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class CategoryTable(Protocol):
    """C categories in the order of their indices."""

    @property
    def ids(self) -> NDArray[np.integer[Any]]:
        """(C,) ids in the file."""

    @property
    def names(self) -> Sequence[str]:
        """C names."""

    @property
    def frequency(self) -> Sequence[str] | None:
        """C letters r, c or f; None where the file does not say."""


class ImageLists(Protocol):
    """A list of category indices for every image: that of image i is `values[offsets[i] : offsets[i + 1]]`."""

    @property
    def offsets(self) -> NDArray[np.integer[Any]]:
        """(I + 1,)."""

    @property
    def values(self) -> NDArray[np.integer[Any]]:
        """Category indices."""


class Annotations(Protocol):
    """I images with M annotations, sorted by image."""

    @property
    def image_ids(self) -> NDArray[np.integer[Any]]:
        """(I,) ids in the file."""

    @property
    def heights(self) -> NDArray[np.integer[Any]]:
        """(I,)."""

    @property
    def widths(self) -> NDArray[np.integer[Any]]:
        """(I,)."""

    @property
    def categories(self) -> CategoryTable:
        """The vocabulary."""

    @property
    def offsets(self) -> NDArray[np.integer[Any]]:
        """(I + 1,): the annotations of image i are `offsets[i] … offsets[i + 1]`, in the order of the file."""

    @property
    def boxes(self) -> NDArray[np.floating[Any]]:
        """(M, 4) x1, y1, x2, y2."""

    @property
    def xywh(self) -> Floats | None:
        """(M, 4) x, y, width, height with all digits of the file; None where `boxes` has them."""

    @property
    def labels(self) -> NDArray[np.integer[Any]]:
        """(M,) category indices."""

    @property
    def areas(self) -> NDArray[np.floating[Any]]:
        """(M,) of the objects, in pixels, as the file says."""

    @property
    def is_crowd(self) -> NDArray[Any]:
        """(M,)."""

    @property
    def negative(self) -> ImageLists | None:
        """Categories verified to be absent from an image; None if the file has no such lists, as COCO."""

    @property
    def not_exhaustive(self) -> ImageLists | None:
        """Categories of which an image may show more than is annotated."""

    def rle(self, index: int) -> dict[str, Any]:
        """The mask of an annotation as compressed run lengths: `{"size": [h, w], "counts": bytes}`."""
