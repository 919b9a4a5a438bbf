"""Stand-ins for detection data: its layout and categories, with a few small images of noise, to try recipes on."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equigrad.data.detection.formats.openimages import BOXES_FILE, CLASSES_FILE, HIERARCHY_FILE, LABELS_FILE
from equigrad.data.frequency import Counts, load_frequencies, lvis_split
from equigrad.tasks.detection.data import CocoFiles, DetectionSource, GlyphObjects, OpenImages

IMAGE_SIZE = 64  # the shorter side

_NUM_FILES, _NUM_TEST, _NUM_OBJECTS = 8, 1, 10
_NUM_COCO, _OWN_COUNTS = 80, (40, 20, 10, 5, 2)
_NUM_OPENIMAGES, _NUM_KINDS = 500, 20  # every 20th category is above the next 19

Json = dict[str, Any]


def generated_objects(data: DetectionSource, folder: Path) -> DetectionSource:
    """The same data settings on generated files, with the categories of the benchmark, or a few where there is none."""
    if isinstance(data, CocoFiles):
        root = folder / f"{data.benchmark or 'own'}_objects"
        if not root.exists():
            {"lvis": write_lvis, "coco": write_coco, None: write_own}[data.benchmark](root)
        test = None if data.test is None else root / "test.json"
        return replace(data, train=root / "train.json", test=test, images=root / "images", test_images=None)
    if isinstance(data, OpenImages):
        root = folder / "openimages"
        if not root.exists():
            write_openimages(root)
        return replace(data, root=root, images=root / "images", sizes=None)
    if isinstance(data, GlyphObjects):
        return replace(data, root=folder / f"glyphs_{hash(data)}", max_count=2, test_count=1)
    return data


def write_lvis(root: Path) -> None:
    """LVIS v1: its names and letters, federated fields, and true counts up to where a category is frequent.

    The most frequent one has 1,001 images, so that each bound that a method draws has categories on both sides.
    """
    real = load_frequencies("lvis_v1")
    counts = np.minimum(real.image_counts, 101)
    counts[real.image_counts.argmax()] = 1001
    letters = {int(label): group[0] for group, members in lvis_split(counts).items() for label in members}
    categories = _categories(real.names)
    for category, count in zip(categories, counts.tolist(), strict=True):
        category |= {"frequency": letters[category["id"] - 1], "image_count": count}
    _write_annotated(root, categories, counts, {"neg_category_ids": [], "not_exhaustive_category_ids": []})


def write_coco(root: Path) -> None:
    """COCO: 80 categories and no federated fields."""
    _write_annotated(root, _categories([f"category {label}" for label in range(_NUM_COCO)]), np.full(_NUM_COCO, 2), {})


def write_own(root: Path) -> None:
    """Annotation files of a user in COCO's format: a few categories and no rules of a benchmark."""
    counts = np.array(_OWN_COUNTS)
    _write_annotated(root, _categories([f"category {label}" for label in range(len(counts))]), counts, {})


def write_openimages(root: Path) -> None:
    """OpenImages Challenge 2019: boxes of all categories, some of them group-of, hierarchy and verified labels."""
    mids = [f"/m/{label:04d}" for label in range(_NUM_OPENIMAGES)]
    parents = [mids[first : first + _NUM_KINDS] for first in range(0, _NUM_OPENIMAGES, _NUM_KINDS)]
    tree = [{"LabelName": top, "Subcategory": [{"LabelName": mid} for mid in kinds]} for top, *kinds in parents]
    root.mkdir(parents=True)
    (root / HIERARCHY_FILE).write_text(json.dumps({"LabelName": "/m/0", "Subcategory": tree}), encoding="utf-8")
    _write_rows(root / CLASSES_FILE, [(mid, f"category {label}") for label, mid in enumerate(mids)])
    for split, chosen in (("train", mids), ("validation", mids[:: _NUM_OPENIMAGES // (_NUM_TEST * _NUM_OBJECTS)])):
        names = [f"{number // _NUM_OBJECTS:016x}" for number in range(len(chosen))]
        for number, name in enumerate(dict.fromkeys(names)):
            _write_image(root / "images" / split / f"{name}.jpg", number)
        rng = np.random.default_rng(0)
        corners = rng.uniform(0, 0.5, (len(chosen), 2)).round(3).tolist()
        boxes = [
            (name, mid, left, left + 0.5, top, top + 0.5, int(number % 5 == 0))
            for number, (name, mid, (left, top)) in enumerate(zip(names, chosen, corners, strict=True))
        ]
        _write_rows(
            root / BOXES_FILE.format(split=split),
            [("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax", "IsGroupOf"), *boxes],
        )
        verified = [(name, mid, 1) for name, mid in zip(names, chosen, strict=True)]
        _write_rows(root / LABELS_FILE.format(split=split), [("ImageID", "LabelName", "Confidence"), *verified])


def _write_annotated(root: Path, categories: list[Json], counts: Counts, image_fields: Json) -> None:
    """A training file with so many images of each category, and a test file of a few; records share image files."""
    files = [f"{number}.jpg" for number in range(_NUM_FILES)]
    sizes = [_write_image(root / "images" / name, number) for number, name in enumerate(files)]
    tested = np.linspace(0, len(counts) - 1, _NUM_TEST * _NUM_OBJECTS).astype(int)
    trained = np.repeat(np.arange(len(counts)), counts)
    num_train = max(len(trained) // _NUM_OBJECTS, int(counts.max()))  # a category is at most once in an image
    for split, labels, num_images in (("train", trained, num_train), ("test", tested, _NUM_TEST)):
        images = [
            {"id": number, "file_name": files[number % _NUM_FILES], **_size(sizes[number % _NUM_FILES]), **image_fields}
            for number in range(num_images)
        ]
        rng = np.random.default_rng(0)
        annotations = [
            {"id": number + 1, "image_id": number % num_images, "category_id": label + 1, **_object(box)}
            for number, (label, box) in enumerate(
                zip(labels.tolist(), rng.integers(8, IMAGE_SIZE // 2, (len(labels), 4)).tolist(), strict=True)
            )
        ]
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / f"{split}.json").write_text(json.dumps(content), encoding="utf-8")


def _categories(names: Sequence[str]) -> list[Json]:
    return [{"id": label + 1, "name": name} for label, name in enumerate(names)]


def _size(size: tuple[int, int]) -> Json:
    return {"width": size[0], "height": size[1]}


def _object(box: Sequence[int]) -> Json:
    """A rectangle x, y, width, height, with its mask."""
    left, top, width, height = box
    right, bottom = left + width, top + height
    polygon = [left, top, right, top, right, bottom, left, bottom]
    return {"bbox": list(box), "area": width * height, "segmentation": [polygon], "iscrowd": 0}


def _write_image(file: Path, number: int) -> tuple[int, int]:
    """Noise; widths differ. Width and height."""
    size = (IMAGE_SIZE + 8 * (number % 3), IMAGE_SIZE)
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)
    return size


def _write_rows(file: Path, rows: Iterable[Sequence[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
