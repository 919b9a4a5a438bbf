"""What the detection metrics need of a data set: a protocol that `DetectionData` and other objects can fulfil."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class CategoryTable(Protocol):
    """C categories in the order of labels."""

    @property
    def ids(self) -> NDArray[np.integer[Any]]:
        """(C,) ids in the annotation file."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the C categories."""

    @property
    def frequency(self) -> Sequence[str] | None:
        """C letters r, c or f; None if the file has none."""


class ImageLists(Protocol):
    """A list of labels for every image: that of image i is `values[offsets[i] : offsets[i + 1]]`."""

    @property
    def offsets(self) -> NDArray[np.integer[Any]]:
        """(I + 1,) where the list of each image starts, and the end of the last."""

    @property
    def values(self) -> NDArray[np.integer[Any]]:
        """Labels of all lists, one after the other."""


class Annotations(Protocol):
    """I images with M annotations, which are sorted by image."""

    @property
    def image_ids(self) -> NDArray[np.integer[Any]]:
        """(I,) ids in the annotation file."""

    @property
    def heights(self) -> NDArray[np.integer[Any]]:
        """(I,) of the images in pixels."""

    @property
    def widths(self) -> NDArray[np.integer[Any]]:
        """(I,) of the images in pixels."""

    @property
    def categories(self) -> CategoryTable:
        """The categories that labels refer to."""

    @property
    def offsets(self) -> NDArray[np.integer[Any]]:
        """(I + 1,): the annotations of image i are `offsets[i] … offsets[i + 1]`, in the order of the file."""

    @property
    def boxes(self) -> NDArray[np.floating[Any]]:
        """(M, 4) x1, y1, x2, y2."""

    @property
    def xywh(self) -> Floats | None:
        """(M, 4) x, y, width, height with all digits of the file; None if `boxes` has all digits."""

    @property
    def labels(self) -> NDArray[np.integer[Any]]:
        """(M,) labels, which are indices of categories."""

    @property
    def areas(self) -> NDArray[np.floating[Any]]:
        """(M,) areas of the objects in pixels, as in the file."""

    @property
    def is_crowd(self) -> NDArray[Any]:
        """(M,) whether an annotation covers several objects."""

    @property
    def negative(self) -> ImageLists | None:
        """Categories verified to be absent from an image; None if the file has no such lists, like COCO."""

    @property
    def not_exhaustive(self) -> ImageLists | None:
        """Categories of which an image may show more objects than are annotated."""

    def require_sizes(self) -> None:
        """ValueError if the height or width of an image is 0, because it is not known."""

    def rle(self, index: int) -> dict[str, Any]:
        """The mask of an annotation as compressed run lengths: `{"size": [h, w], "counts": bytes}`."""
