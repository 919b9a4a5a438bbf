"""Checks of the categories and images of a COCO or LVIS file; they accept any JSON content."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from equigrad.data.detection.findings import FindingCollector
from equigrad.data.detection.formats.coco_json import MAX_PIXELS
from equigrad.data.detection.formats.coco_paths import image_path
from equigrad.data.detection.formats.coco_text import decoded
from equigrad.record_ids import EXPECTED, plain_id

_MOST_IMAGES = {"r": 10, "c": 100, "f": math.inf}
_FEDERATED = ("neg_category_ids", "not_exhaustive_category_ids")
_Record = dict[str, Any]


@dataclass
class ImageFacts:
    """What the checks of annotations need to know about an image."""

    height: int  # 0 if it is not known
    width: int
    path: str | None
    absent: frozenset[str] = frozenset()
    num_annotations: int = 0


@dataclass
class CategoryFacts:
    """What the checks of annotations need to know about a category."""

    name: str
    num_annotations: int = 0


def objects(found: FindingCollector, kind: str, records: Sequence[msgspec.Raw]) -> Iterator[tuple[str, _Record]]:
    """The records that are JSON objects, each with its name for messages; others are reported."""
    for index, record in enumerate(records):
        name = f"{kind} number {index + 1}"
        try:
            content = decoded(record)
        except ValueError as error:
            found.add("records that are not objects", f"{name}: {error}")
            continue
        if isinstance(content, dict):
            yield (f"{kind} {content['id']}" if plain_id(content.get("id")) is not None else name), content
        else:
            found.add("records that are not objects", f"{name}: {content!r:.60}")


def is_number(value: Any) -> bool:
    """Whether a value is a number, finite or not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a number is finite as a float; an integer may be too large for a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def wrong_field(found: FindingCollector, kind: str, name: str, record: _Record, field_name: str, expected: str) -> None:
    """Report a field that is missing or has a wrong value."""
    value = f"got {record[field_name]!r:.60}" if field_name in record else "it is missing"
    found.add(f"{kind} with a missing or wrong field", f"{name}: {field_name}: expected {expected}, {value}")


def id_text(found: FindingCollector, kind: str, name: str, record: _Record, field_name: str = "id") -> str | None:
    """An id as text, by which records are found, as it may be a number here and a text there; None if it is no id."""
    value = plain_id(record.get(field_name))
    if value is None:
        wrong_field(found, kind, name, record, field_name, EXPECTED)
    return None if value is None else str(value)


def _check_kinds(found: FindingCollector, kind: str, known: Mapping[str, Any], num_texts: int) -> None:
    if 0 < num_texts < len(known):
        found.add(
            f"{kind} of which some have numbers and some texts as ids", f"{num_texts:,} of {len(known):,} are texts"
        )


def check_categories(found: FindingCollector, records: Sequence[msgspec.Raw]) -> dict[str, CategoryFacts]:
    """Check the categories and return the usable ones by the text of their id."""
    known: dict[str, CategoryFacts] = {}
    num_texts = 0
    names: dict[str, str] = {}
    unlettered: list[str] = []
    num_lettered = 0
    for name, record in objects(found, "category", records):
        if "frequency" in record and record["frequency"] is not None:
            num_lettered += 1
            _check_frequency(found, name, record)
        else:
            unlettered.append(name)
        number = id_text(found, "categories", name, record)
        if number is None:
            continue
        title = record.get("name")
        if not isinstance(title, str) or not title.strip():
            wrong_field(found, "categories", name, record, "name", "a name")
        elif title in names:
            found.add("categories with the same name", f"{name} and {names[title]}: {title!r:.60}")
        if number in known:
            found.add("categories with the same id", f"{name}: {title!r:.60}")
            continue
        num_texts += isinstance(record["id"], str)
        known[number] = CategoryFacts(repr(title))
        names.setdefault(str(title), name)
    if num_lettered and unlettered:
        found.add("categories without the frequency that others have", unlettered[0], len(unlettered))
    _check_kinds(found, "categories", known, num_texts)
    if not records:
        found.add("no categories", "categories is empty")
    return known


def _check_frequency(found: FindingCollector, name: str, record: _Record) -> None:
    letter, count = record["frequency"], record.get("image_count")
    if not isinstance(letter, str) or letter not in _MOST_IMAGES:
        wrong_field(found, "categories", name, record, "frequency", "r, c or f")
    # Fewer images are fine: the frequency is that of the whole training set, the count may be that of a part.
    elif isinstance(count, int | float) and count > _MOST_IMAGES[letter]:
        found.add(
            "categories with more images than their frequency allows",
            f"{name}: frequency {letter} is up to {_MOST_IMAGES[letter]} images, image_count is {count}",
        )


def check_images(
    found: FindingCollector, records: Sequence[msgspec.Raw], categories: dict[str, CategoryFacts]
) -> dict[str, ImageFacts]:
    """Check the images and return the usable ones by the text of their id."""
    known: dict[str, ImageFacts] = {}
    num_texts = 0
    owners: dict[str, str] = {}
    unlisted: dict[str, list[str]] = {field_name: [] for field_name in _FEDERATED}
    for name, record in objects(found, "image", records):
        absent = _check_lists(found, name, record, categories, unlisted)
        number = id_text(found, "images", name, record)
        if number is None or not _has_size(found, name, record):
            continue
        path = _path(found, name, record)
        if number in known:
            found.add("images with the same id", f"{name}: {path!r:.100}")
            continue
        if path is not None and owners.setdefault(path, name) != name:
            found.add("images with the same file", f"{name} and {owners[path]}: {path!r:.100}")
        num_texts += isinstance(record["id"], str)
        known[number] = ImageFacts(record["height"], record["width"], path, absent)
    for field_name, names in unlisted.items():
        if 0 < len(names) < len(records):
            found.add("images without the federated lists that others have", f"{names[0]}: {field_name}", len(names))
    _check_kinds(found, "images", known, num_texts)
    if not records:
        found.add("no images", "images is empty")
    return known


def _check_lists(
    found: FindingCollector,
    name: str,
    record: _Record,
    categories: dict[str, CategoryFacts],
    unlisted: dict[str, list[str]],
) -> frozenset[str]:
    """Check the federated lists of an image and return the categories it lists as absent."""
    lists: list[frozenset[str]] = []
    for field_name in _FEDERATED:
        if record.get(field_name) is None:
            unlisted[field_name].append(name)
            lists.append(frozenset())
        else:
            lists.append(_category_list(found, name, record, field_name, categories))
    absent, not_exhaustive = lists
    if absent & not_exhaustive:
        found.add("categories both absent and not exhaustive", f"{name}: category {min(absent & not_exhaustive)}")
    return absent


def _has_size(found: FindingCollector, name: str, record: _Record) -> bool:
    """Whether height and width are usable, or missing; one alone is then taken for missing, too."""
    sides = [record.get(side) for side in ("height", "width")]
    for side, value in zip(("height", "width"), sides, strict=True):
        if value is not None and (type(value) is not int or not 1 <= value <= MAX_PIXELS):
            wrong_field(found, "images", name, record, side, "a whole number of pixels")
            return False
    if None in sides:
        record.update(height=0, width=0)
        found.add("images without height and width", f"{name}: they are read from the image")
    elif record["height"] * record["width"] > MAX_PIXELS:
        wrong_field(
            found, "images", name, record, "height", f"up to {MAX_PIXELS:,} pixels with width {record['width']}"
        )
        return False
    return True


def _path(found: FindingCollector, name: str, record: _Record) -> str | None:
    for field_name in ("file_name", "coco_url"):
        if not isinstance(record.get(field_name), str | None):
            wrong_field(found, "images", name, record, field_name, "a text")
            return None
    if not record.get("file_name") and not record.get("coco_url"):
        wrong_field(found, "images", name, record, "file_name", "a path")
        return None
    try:
        return image_path(record.get("file_name"), record.get("coco_url"))
    except ValueError as error:
        found.add("image paths that leave the folder", f"{name}: {error}")
        return None


def _category_list(
    found: FindingCollector, name: str, record: _Record, field_name: str, categories: dict[str, CategoryFacts]
) -> frozenset[str]:
    ids = record[field_name]
    if not isinstance(ids, list) or not all(plain_id(value) is not None for value in ids):
        wrong_field(found, "images", name, record, field_name, "a list of category ids")
        return frozenset()
    numbers = [str(plain_id(value)) for value in ids]
    for number in numbers:
        if number not in categories:
            found.add(f"unknown categories in {field_name}", f"{name}: category {number}")
    return frozenset(numbers)
