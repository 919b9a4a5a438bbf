"""Masks as one closed polygon, for formats that have no other."""

import numpy as np
import pycocotools.mask as coco_mask  # type: ignore[import-untyped]
from numpy.typing import NDArray

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.masks import Rle, RunLengthMask, rle_to_mask


def outline(data: DetectionData, annotation: int) -> list[float]:
    """The mask of an annotation as one polygon x, y, x, y, …; its parts and holes are joined by lines of no width."""
    assert data.segmentations is not None
    rle = data.rle(annotation)  # checks the shape
    shape = data.segmentations.shape(annotation)
    if isinstance(shape, RunLengthMask) or (len(shape) > 1 and _overlap(shape, rle)):
        return joined(mask_outlines(rle_to_mask(rle)))
    return joined([np.reshape(polygon, (-1, 2)) for polygon in shape])


def joined(polygons: list[NDArray[np.float64]]) -> list[float]:
    """One polygon that goes around each of the polygons (N, 2), there and back along the same lines in between."""
    if not polygons:
        return []
    first, *others = polygons
    path = [first]
    for other in others:
        path += [first[:1], other, other[:1]]
    numbers: list[float] = np.concatenate(path).ravel().tolist()
    return numbers


def mask_outlines(mask: NDArray[np.uint8]) -> list[NDArray[np.float64]]:
    """Outlines (N, 2) of the parts and holes of a mask (H, W), through the middle between pixels inside and outside."""
    from contourpy import contour_generator

    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    if not len(rows):
        return []
    top, left = int(rows[0]), int(columns[0])
    part = mask[top : rows[-1] + 1, left : columns[-1] + 1]
    # A frame of zeros closes the outlines at the edges; pixel 0 is from 0 to 1, so its middle is 0.5.
    lines = contour_generator(z=np.pad(part, 1).astype(np.float64)).lines(0.5)
    offset = np.array([left, top]) - 0.5
    return [np.asarray(line, np.float64)[:-1] + offset for line in lines]  # the last point is the first again


def _overlap(polygons: list[list[float]], rle: Rle) -> bool:
    """Whether polygons share pixels: drawn as one polygon, these would be outside."""
    height, width = rle["size"]
    parts = coco_mask.frPyObjects([list(polygon) for polygon in polygons], height, width)
    return bool(coco_mask.area(parts).sum() != coco_mask.area(rle))
