"""Writing detection data as a YOLO folder: `images/**`, `labels/**` and `data.yaml`."""

import os
from pathlib import Path, PurePosixPath

import numpy as np
import yaml  # type: ignore[import-untyped]
from numpy.typing import NDArray

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.new_folders import (
    Conversion,
    ImageFiles,
    check_names,
    clipped_boxes,
    new_folder,
    place_images,
)
from equigrad.data.detection.outlines import outline

_SAME_BOX = 2.0  # pixels by which tools differ on the box of a mask
_DIGITS = 8  # of fractions: a ten-thousandth of a pixel in an image of 10,000


def write_yolo(
    data: DetectionData,
    folder: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    image_files: ImageFiles | None = None,
    with_masks: bool = True,
) -> Conversion:
    """Write a new YOLO folder, complete or not at all.

    An object with a mask becomes a polygon, several parts joined by lines of no width. Boxes are cut off at the edges
    of their image. Crowds and objects without area are left out, because the format cannot express them.

    Args:
        data: what to write.
        folder: must be new or empty.
        images: folder or `.zip` of the images; None writes labels alone.
        image_files: symbolic links, copies, or none; None links files, and copies those of an archive.
        with_masks: whether objects with a mask become polygons; else all are boxes.
    """
    folder = Path(folder)
    check_names(data)
    labels = _label_files(data)
    boxes = clipped_boxes(data)
    has_area = np.all(boxes[:, 2:] > boxes[:, :2], axis=1)
    kept = has_area & ~data.is_crowd
    num_moved = 0
    with new_folder(folder) as fresh:
        for image, file in enumerate(labels):
            rows = np.arange(*data.offsets[image : image + 2])
            size = np.array([data.widths[image], data.heights[image]], np.float64)
            lines: list[str] = []
            for row in rows[kept[rows]]:
                polygon = _polygon(data, row, size) if with_masks else None
                num_moved += polygon is not None and _is_elsewhere(polygon, boxes[row])
                lines.append(_line(data.labels[row], boxes[row], polygon, size))
            if lines:
                target = fresh / "labels" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text("".join(lines), encoding="utf-8")
        (fresh / "labels").mkdir(exist_ok=True)
        names = dict(enumerate(data.categories.names))
        settings = yaml.safe_dump({"train": "images", "names": names}, allow_unicode=True, sort_keys=False)
        (fresh / "data.yaml").write_text(settings, encoding="utf-8")
        place_images(data, images, [fresh / "images" / name for name in data.file_names], image_files)
    remarks = {
        "crowds left out, which YOLO does not have": int(data.is_crowd.sum()),
        "boxes without area in their image left out": int((~has_area & ~data.is_crowd).sum()),
        "boxes that are not around their mask replaced by the box of the mask": num_moved,
    }
    return Conversion(folder, len(data), int(kept.sum()), data.num_classes, remarks)


def _label_files(data: DetectionData) -> list[PurePosixPath]:
    files = [PurePosixPath(name).with_suffix(".txt") for name in data.file_names]
    owners: dict[PurePosixPath, str] = {}
    for file, name in zip(files, data.file_names, strict=True):
        if file in owners:
            raise ValueError(f"{data.source}: {owners[file]} and {name} would have the same file of labels, {file}")
        owners[file] = name
    return files


def _line(label: int, box: NDArray[np.float64], polygon: NDArray[np.float64] | None, size: NDArray[np.float64]) -> str:
    if polygon is None:
        numbers = np.concatenate([(box[:2] + box[2:]) / 2 / size, (box[2:] - box[:2]) / size])
    else:
        numbers = (polygon / size).ravel()
    words = (f"{number:.{_DIGITS}f}".rstrip("0").rstrip(".") for number in numbers.tolist())
    return f"{label} {' '.join(words)}\n"


def _is_elsewhere(polygon: NDArray[np.float64], box: NDArray[np.float64]) -> bool:
    """Whether the box of a polygon, which readers will take, is another one than that of the data."""
    corners = np.concatenate([polygon.min(0), polygon.max(0)])
    return bool((np.abs(corners - box) > _SAME_BOX).any())


def _polygon(data: DetectionData, row: int, size: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Corners (N, 2) of the mask, inside the image; None if there is no mask, or none of it is inside."""
    if data.segmentations is None or not data.segmentations.lengths[row]:
        return None
    corners: NDArray[np.float64] = np.reshape(outline(data, row), (-1, 2)).clip(0, size)
    has_area = len(corners) and np.all(np.ptp(corners, axis=0) > 0)
    return corners if has_area else None
