"""Masks of a Pascal VOC folder: `SegmentationObject/*.png`, whose pixels of value k are the k-th object."""

from pathlib import Path
from typing import Any

import numpy as np
import pycocotools.mask as coco_mask  # type: ignore[import-untyped]
from numpy.typing import NDArray
from PIL import Image

from equigrad.data.detection.data import DetectionData
from equigrad.data.images.decoding import check_file_size, opened_image

MAX_OBJECTS = 254
"""Values of a PNG with one byte a pixel, without 0, the background, and 255, which belongs to no object."""

_MAX_WORK = 1 << 33  # pixels of all masks together, which take seconds: 254 objects in an image of 7,680 x 4,320


def write_object_mask(data: DetectionData, image: int, rows: NDArray[np.int64], file: Path) -> None:
    """Write the objects of an image as one map of their numbers; small objects lie above large ones."""
    assert data.segmentations is not None
    numbers = np.zeros((data.heights[image], data.widths[image]), np.uint8)
    for position in np.argsort(-data.areas[rows], kind="stable"):
        if data.segmentations.lengths[rows[position]]:
            numbers[data.mask(rows[position]) == 1] = position + 1
    picture = Image.fromarray(numbers)
    picture.putpalette(_palette())
    file.parent.mkdir(exist_ok=True)
    picture.save(file)


def read_object_masks(file: Path, size: tuple[int, int], num_objects: int) -> list[dict[str, Any] | None]:
    """The mask of each object as COCO's run lengths, None where it has no pixel; ValueError or OSError names the file.

    Args:
        file: the PNG.
        size: height and width of the image.
        num_objects: in the XML file.
    """
    try:
        check_file_size(file.stat().st_size)
        with opened_image(file) as picture:
            mode, found = picture.mode, (picture.height, picture.width)
            is_map = mode in ("P", "L") and found == size
            counts = picture.histogram() if is_map else []
            numbers = np.asarray(picture) if is_map else np.empty(0)
    except OSError as error:
        raise OSError(f"{file}: {error}") from None
    if not is_map:
        expected = f"{size[0]} x {size[1]} with one number per pixel"
        raise ValueError(f"{file}: expected {expected}, as its image, got {found[0]} x {found[1]} of mode {mode}")
    present = {number for number in range(1, min(num_objects, MAX_OBJECTS) + 1) if counts[number]}
    if len(present) * numbers.size > _MAX_WORK:
        raise ValueError(f"{file}: {len(present)} objects are too many for masks of {numbers.size:,} pixels")
    return [_run_lengths(numbers == number) if number in present else None for number in range(1, num_objects + 1)]


def mask_area(rle: dict[str, Any]) -> float:
    """Number of pixels of run lengths."""
    return float(coco_mask.area(rle))


def _run_lengths(mask: NDArray[np.bool_]) -> dict[str, Any]:
    rle = coco_mask.encode(np.asfortranarray(mask, np.uint8))
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def _palette() -> list[int]:
    """VOC's colours: the bits of a number, three at a time, become the highest bits of red, green and blue."""
    colours = []
    for number in range(256):
        for channel in range(3):
            bits = (number >> (3 * place + channel) & 1 for place in range(8))
            colours.append(sum(bit << (7 - place) for place, bit in enumerate(bits)))
    return colours
