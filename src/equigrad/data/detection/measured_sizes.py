"""Height and width of images whose annotation file does not state them, from the headers of the images."""

import json
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.coco_paths import existing_paths
from equigrad.data.images.sizes import stored_image_size
from equigrad.data.images.stores import ImageStore, open_store
from equigrad.files import atomic_write


def with_sizes(data: DetectionData, store: ImageStore) -> DetectionData:
    """The data with the size of every image, upright as EXIF says; what the file states is kept.

    FileNotFoundError or OSError names an image that is missing or cannot be read.
    """
    if data.has_sizes:
        return data
    paths = existing_paths(store, data.file_names)
    heights, widths = data.heights.copy(), data.widths.copy()
    for image in np.flatnonzero((heights == 0) | (widths == 0)).tolist():
        heights[image], widths[image] = stored_image_size(store, paths[image])
    return replace(data, heights=heights, widths=widths)


def complete_sizes(file: Path, output: Path, images: str | os.PathLike[str]) -> Path:
    """Write a COCO file anew, all that is in it and the size of every image; it appears complete or not at all."""
    data = with_sizes(read_coco(file), open_store(images))
    content = json.loads(file.read_text(encoding="utf-8-sig"))
    for record, height, width in zip(content["images"], data.heights.tolist(), data.widths.tolist(), strict=True):
        record.update(height=height, width=width)
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as stream:
        stream.write(msgspec.json.encode(content))
    return output
