"""Checks of the annotations of a COCO or LVIS file: fields, boxes, areas and masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from equigrad.data.detection.findings import FindingCollector
from equigrad.data.detection.formats.coco_json import LARGEST_COORDINATE
from equigrad.data.detection.formats.coco_record_checks import (
    CategoryFacts,
    ImageFacts,
    id_text,
    is_finite,
    is_number,
    objects,
    wrong_field,
)
from equigrad.data.detection.masks import RunLengthMask, check_polygons, shape_to_rle
from equigrad.record_ids import plain_id

_TOLERANCE = 1.0  # pixels an annotation may extend beyond its image: tools differ on the last pixel
_Record = dict[str, Any]


@dataclass
class _Corners:
    """Whether boxes look like x1, y1, x2, y2: many leave their image as x, y, width, height, but fit as corners.

    Right boxes hardly ever leave their image, and one that does is no second corner by chance: x2 > x1 and y2 > y1
    hold for all corners, but only for boxes near the upper left corner of their image otherwise.
    """

    num_boxes: int = 0
    num_leaving: int = 0  # of the image as x, y, width, height
    num_fitting: int = 0  # into the image as corners
    first: str = ""

    def add(self, name: str, box: list[float], image: Any) -> None:
        x, y, width, height = box
        right, bottom = image.width + _TOLERANCE, image.height + _TOLERANCE
        self.num_boxes += 1
        self.num_fitting += x < width <= right and y < height <= bottom
        if x + width > right or y + height > bottom:
            self.num_leaving += 1
            self.first = self.first or f"{name}: {box} in an image of height {image.height} and width {image.width}"

    def report(self, found: FindingCollector) -> None:
        if self.num_leaving >= max(3, 0.1 * self.num_boxes) and self.num_fitting >= 0.99 * self.num_boxes:
            remedy = "write [x1, y1, x2 - x1, y2 - y1] as bbox"
            found.add("boxes that look like x1, y1, x2, y2", f"{self.first}: {remedy}", self.num_boxes)


def check_annotations(
    found: FindingCollector,
    records: Sequence[msgspec.Raw],
    images: dict[str, ImageFacts],
    categories: dict[str, CategoryFacts],
) -> None:
    """Check every annotation, and count the annotations of each image and category."""
    ids: set[str] = set()
    contents: set[int] = set()
    maskless: list[str] = []
    num_masks = 0
    corners = _Corners()
    for name, record in objects(found, "annotation", records):
        _check_id(found, name, record, ids)
        image = _owner(found, name, record, "image_id", "images", images)
        category = _owner(found, name, record, "category_id", "categories", categories)
        if image is not None and category is not None:
            _check_content(found, name, record, image, category, contents)
        sized = image if isinstance(image, ImageFacts) and image.height else None
        _check_numbers(found, name, record, sized, corners)
        if record.get("segmentation"):
            num_masks += 1
            _check_mask(found, name, record, sized)
        else:
            maskless.append(name)
    corners.report(found)
    if num_masks and maskless:
        found.add("annotations without mask where others have one", maskless[0], len(maskless))
    if not records:
        found.add("no annotations", "annotations is empty or missing")


def _check_id(found: FindingCollector, name: str, record: _Record, ids: set[str]) -> None:
    number = id_text(found, "annotations", name, record)
    if number is None:
        return
    if number in ids:
        found.add("annotations with the same id", name)
    if number == "0":
        found.add("annotations with id 0", name)
    ids.add(number)


def _owner(
    found: FindingCollector, name: str, record: _Record, field: str, kind: str, known: dict[str, Any]
) -> ImageFacts | CategoryFacts | None:
    """The image or category that an annotation belongs to."""
    number = id_text(found, "annotations", name, record, field)
    if number is None:
        return None
    owner: ImageFacts | CategoryFacts | None = known.get(number)
    if owner is None:
        found.add(f"annotations of unknown {kind}", f"{name}: {field} {number}")
    else:
        owner.num_annotations += 1
    return owner


def _check_content(
    found: FindingCollector, name: str, record: _Record, image: Any, category: Any, contents: set[int]
) -> None:
    if str(plain_id(record["category_id"])) in image.absent:
        case = f"{name}: category {record['category_id']} ({category.name}) in image {record['image_id']}"
        found.add("annotations of a category that the image lists as absent", case)
    # Hashes take less memory than the boxes of a million annotations.
    content = hash((record["image_id"], record["category_id"], repr(record.get("bbox"))))
    if content in contents:
        found.add("annotations that repeat another", f"{name}: box {record.get('bbox')!r:.60}")
    contents.add(content)


def _check_numbers(found: FindingCollector, name: str, record: _Record, image: Any, corners: _Corners) -> None:
    if record.get("iscrowd", 0) not in (0, 1):
        wrong_field(found, "annotations", name, record, "iscrowd", "0 or 1")
    box = record.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(is_number(value) for value in box):
        wrong_field(found, "annotations", name, record, "bbox", "4 numbers")
        return
    if not all(is_finite(value) and abs(value) <= LARGEST_COORDINATE for value in box):
        found.add("boxes that are not finite or beyond any image", f"{name}: {box}")
        return
    _check_box(found, name, box, image)
    if image is not None:
        corners.add(name, box, image)
    area = record.get("area")
    if area is None:
        return
    if not is_number(area):
        wrong_field(found, "annotations", name, record, "area", "a number")
    elif not is_finite(area) or area < 0:
        found.add("areas that are negative or not finite", f"{name}: {area}")
    elif min(box[2:]) > 0 and area > 1.01 * (box[2] + _TOLERANCE) * (box[3] + _TOLERANCE):
        found.add("areas larger than their box", f"{name}: area {area}, box {box}")


def _check_box(found: FindingCollector, name: str, box: list[float], image: Any) -> None:
    x, y, width, height = box
    if width < 0 or height < 0:
        found.add("boxes with negative width or height", f"{name}: {box}")
    elif width == 0 or height == 0:
        found.add("boxes without area", f"{name}: {box}")
    elif image is not None:
        case = f"{name}: {box} in an image of height {image.height} and width {image.width}"
        if x >= image.width or y >= image.height or x + width <= 0 or y + height <= 0:
            found.add("boxes outside their image", case)
        elif max(-x, -y, x + width - image.width, y + height - image.height) > _TOLERANCE:
            found.add("boxes that reach out of their image", case)


def _check_mask(found: FindingCollector, name: str, record: _Record, image: Any) -> None:
    shape = record["segmentation"]
    if isinstance(shape, dict):
        _check_runs(found, name, shape, image)
    elif isinstance(shape, list) and all(isinstance(polygon, list) for polygon in shape):
        if record.get("iscrowd") == 1:
            found.add("crowds that are not run lengths", name)
        _check_polygons(found, name, shape, image)
    else:
        found.add("masks that are neither polygons nor run lengths", f"{name}: {shape!r:.60}")


def _check_polygons(found: FindingCollector, name: str, polygons: list[list[Any]], image: Any) -> None:
    for polygon in polygons:
        if not set(map(type, polygon)) <= {int, float}:
            found.add("masks that are neither polygons nor run lengths", f"{name}: {polygon!r:.60}")
            return
        if len(polygon) % 2:
            found.add("polygons with an odd number of coordinates", f"{name}: {len(polygon)}")
            return
        if len(polygon) < 6:
            found.add("polygons with fewer than three corners", f"{name}: {len(polygon)} numbers")
            return
    try:
        if not all(is_finite(sum(polygon)) for polygon in polygons):
            raise ValueError("a coordinate is not finite")
        check_polygons(polygons)
    except (ValueError, OverflowError) as error:
        found.add("polygons that are not finite or endless", f"{name}: {error}")
        return
    if image is not None:
        _check_extent(found, name, polygons, image)


def _check_extent(found: FindingCollector, name: str, polygons: list[list[float]], image: Any) -> None:
    right = max(max(polygon[::2]) for polygon in polygons) - image.width
    bottom = max(max(polygon[1::2]) for polygon in polygons) - image.height
    beyond = max(right, bottom, -min(min(polygon) for polygon in polygons))
    if beyond > _TOLERANCE:
        found.add("polygons that reach out of their image", f"{name}: by {beyond:.1f} pixels")


def _check_runs(found: FindingCollector, name: str, shape: _Record, image: Any) -> None:
    try:
        runs = msgspec.convert(shape, RunLengthMask)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        found.add("masks that are neither polygons nor run lengths", f"{name}: {error}")
        return
    if image is None:
        return
    if runs.size != (image.height, image.width):
        case = f"{name}: {list(runs.size)} in an image of {[image.height, image.width]}"
        found.add("run lengths of another size than their image", case)
        return
    try:
        shape_to_rle(runs, image.height, image.width)
    except ValueError as error:
        found.add("run lengths that do not cover their image", f"{name}: {error}")
