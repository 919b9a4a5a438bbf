"""Writing detection data as a Pascal VOC folder: annotations, images, the list of images, and masks of objects."""

import os
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.coco_paths import without_folders
from equigrad.data.detection.formats.new_folders import (
    Conversion,
    ImageFiles,
    check_names,
    clipped_boxes,
    new_folder,
    place_images,
)
from equigrad.data.detection.formats.voc import NAMES_FILE
from equigrad.data.detection.formats.voc_masks import MAX_OBJECTS, write_object_mask


def write_voc(
    data: DetectionData,
    folder: str | os.PathLike[str],
    images: str | os.PathLike[str] | None = None,
    *,
    image_files: ImageFiles | None = None,
    with_masks: bool = True,
) -> Conversion:
    """Write a new VOC folder, complete or not at all.

    Boxes are rounded to whole pixels, counted from 1, and cut off at the edges of their image. Crowds are marked
    difficult. Masks go to `SegmentationObject`, where a pixel belongs to one object only. `classes.txt` names all
    categories in order, which VOC itself does not.

    Args:
        data: what to write.
        folder: must be new or empty.
        images: folder or `.zip` of the images; None writes annotations alone.
        image_files: symbolic links, copies, or none; None links files, and copies those of an archive.
        with_masks: whether to write masks, if there are any.
    """
    folder = Path(folder)
    check_names(data)
    names = _flat_names(data)
    boxes, has_area = _whole_pixels(data)
    num_without_masks = 0
    with new_folder(folder) as fresh:
        for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
            (fresh / part).mkdir(parents=True)
        for image, name in enumerate(names):
            rows = np.arange(*data.offsets[image : image + 2])
            rows = rows[has_area[rows]]
            stem = PurePosixPath(name).stem
            _write_xml(fresh / "Annotations" / f"{stem}.xml", name, data, image, rows, boxes)
            if not with_masks or data.segmentations is None or not data.segmentations.lengths[rows].any():
                continue
            if len(rows) > MAX_OBJECTS:
                num_without_masks += 1
            else:
                write_object_mask(data, image, rows, fresh / "SegmentationObject" / f"{stem}.png")
        stems = "".join(f"{PurePosixPath(name).stem}\n" for name in names)
        (fresh / "ImageSets" / "Main" / "trainval.txt").write_text(stems, encoding="utf-8")
        (fresh / NAMES_FILE).write_text("".join(f"{name}\n" for name in data.categories.names), encoding="utf-8")
        place_images(data, images, [fresh / "JPEGImages" / name for name in names], image_files)
    remarks = {
        "boxes without area in their image left out": int((~has_area).sum()),
        f"images with more than {MAX_OBJECTS} objects written without masks": num_without_masks,
    }
    return Conversion(folder, len(data), int(has_area.sum()), data.num_classes, remarks)


def _flat_names(data: DetectionData) -> list[str]:
    """File names without folders, which VOC does not have; where two are the same, with the folders in the name."""
    flat = without_folders(data.file_names) or tuple(name.replace("/", "_") for name in data.file_names)
    owners: dict[str, str] = {}
    for name, path in zip(flat, data.file_names, strict=True):
        stem = PurePosixPath(name).stem
        if stem in owners:
            raise ValueError(f"{data.source}: {owners[stem]} and {path} would have the same annotation, {stem}.xml")
        owners[stem] = path
    return list(flat)


def _whole_pixels(data: DetectionData) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """First and last pixel of each box, counted from 1, (M, 4), and whether it has area in its image, (M,)."""
    corners = clipped_boxes(data)
    limits = np.stack([data.widths, data.heights], 1)[data.image_indices]
    has_area = np.all(corners[:, 2:] > corners[:, :2], axis=1)
    first, end = np.rint(corners[:, :2]), np.rint(corners[:, 2:])
    # A box thinner than a pixel keeps the pixel of its middle.
    middle = np.minimum(np.floor((corners[:, :2] + corners[:, 2:]) / 2), limits - 1)
    first, end = np.where(first < end, first, middle), np.where(first < end, end, middle + 1)
    pixels = np.concatenate([first + 1, end], axis=1).astype(np.int64)
    return pixels, has_area


def _write_xml(
    file: Path, name: str, data: DetectionData, image: int, rows: NDArray[np.int64], boxes: NDArray[np.int64]
) -> None:
    root = ElementTree.Element("annotation")
    _add(root, "filename", name)
    size = ElementTree.SubElement(root, "size")
    for tag, number in (("width", data.widths[image]), ("height", data.heights[image]), ("depth", 3)):
        _add(size, tag, str(number))
    for row in rows:
        item = ElementTree.SubElement(root, "object")
        _add(item, "name", data.categories.names[data.labels[row]])
        _add(item, "difficult", str(int(data.is_crowd[row])))
        bounds = ElementTree.SubElement(item, "bndbox")
        for tag, number in zip(("xmin", "ymin", "xmax", "ymax"), boxes[row].tolist(), strict=True):
            _add(bounds, tag, str(number))
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(file, encoding="utf-8")


def _add(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, tag).text = text
