"""Checks of detection data before a long training: each kind of fault, how often it occurs, and how bad it is.

for finding in check_detection("train.json", "images"):
    print(finding)
"""

import os
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.findings import FindingCollector
from equigrad.data.detection.formats.coco_annotation_checks import check_annotations
from equigrad.data.detection.formats.coco_paths import existing_paths, nearby
from equigrad.data.detection.formats.coco_record_checks import CategoryFacts, ImageFacts, check_categories, check_images
from equigrad.data.detection.formats.coco_text import open_coco
from equigrad.data.findings import Finding
from equigrad.data.images.checks import check_coverage, check_overlap
from equigrad.data.images.lists import ImageList
from equigrad.data.images.sizes import stored_image_size
from equigrad.data.images.stores import ImageStore, open_store


def check_detection(
    file: str | os.PathLike[str], images: str | os.PathLike[str] | None = None, *, decode: bool = False
) -> list[Finding]:
    """Find all faults of an annotation file in COCO or LVIS format; damaged content is reported, never raised.

    Args:
        file: the annotation file.
        images: folder or `.zip` of the images; None checks the annotations only.
        decode: also decode every image, which finds damaged pixels but takes as long as reading a whole epoch.
    """
    found = FindingCollector()
    try:
        sections = open_coco(file).sections
    except ValueError as error:
        found.add("the file is not readable", str(error))
        return found.findings()
    known_categories = check_categories(found, sections.categories)
    known_images = check_images(found, sections.images, known_categories)
    store = None if images is None else open_store(images)
    if store is not None:
        _measure(store, list(known_images.values()))
    check_annotations(found, sections.annotations, known_images, known_categories)
    _check_use(found, known_images, known_categories)
    if store is not None:
        _check_files(found, store, known_images, decode)
    return found.findings()


def _check_use(found: FindingCollector, images: dict[str, ImageFacts], categories: dict[str, CategoryFacts]) -> None:
    for image_id, image in images.items():
        if image.num_annotations == 0:
            found.add("images without annotation", f"image {image_id}: {image.path!r:.100}")
    for category_id, category in categories.items():
        if category.num_annotations == 0:
            found.add("categories without annotation", f"category {category_id}: {category.name:.60}")
    if len(categories) == 1:
        (category,) = categories.values()
        found.add("a single category", f"{category.name:.60}: there is no tail that a loss could balance")


def _measure(store: ImageStore, images: Sequence[ImageFacts]) -> None:
    """Read the sizes that the file does not state; what cannot be read is found later."""
    facts = [image for image in images if image.path is not None]
    if all(image.height for image in facts):
        return
    for image, path in zip(facts, _paths(store, facts), strict=True):
        if not image.height:
            with suppress(OSError):
                image.height, image.width = stored_image_size(store, path)


def _paths(store: ImageStore, facts: Sequence[ImageFacts]) -> Sequence[str]:
    """The paths in the store, or those of the file if none of them is there."""
    paths = [str(image.path) for image in facts]
    with suppress(FileNotFoundError):  # all are missing, which is a finding
        return existing_paths(store, paths)
    return paths


def _check_files(found: FindingCollector, store: ImageStore, images: dict[str, ImageFacts], decode: bool) -> None:
    facts = [image for image in images.values() if image.path is not None]
    paths = _paths(store, facts)
    missing = [path for path in paths if store.size(path) is None]
    if missing:
        found.add("missing image files", f"{store.name(missing[0])}{nearby(store, missing)}", len(missing))
    for path, image in zip(paths, facts, strict=True):
        if store.size(path) is not None:
            _check_file(found, store, path, image, decode)


def _check_file(found: FindingCollector, store: ImageStore, path: str, image: ImageFacts, decode: bool) -> None:
    try:
        height, width = stored_image_size(store, path, (image.height, image.width))
        if decode:
            store.read(path)
    except OSError as error:
        found.add("damaged image files", str(error))
        return
    if (height, width) != (image.height, image.width):
        case = f"{store.name(path)}: {height} x {width}, stated are {image.height} x {image.width}"
        found.add("image files of another size than stated", case)


def check_test_set(
    train: DetectionData,
    test: DetectionData,
    train_images: str | os.PathLike[str] | None = None,
    test_images: str | os.PathLike[str] | None = None,
    *,
    by_content: bool = True,
) -> list[Finding]:
    """Find what makes a test set unfit for its training set: other categories, or none of some, and shared images.

    Args:
        train: what is trained on.
        test: what it is tested on.
        train_images: folder or `.zip` of the training images; None does not look for shared images.
        test_images: that of the test images; None is the same.
        by_content: also find renamed copies of images, which reads those of equal size.
    """
    try:
        test = test.in_categories_of(train)
    except ValueError as error:
        return [Finding("error", f"{test.source}: other categories than in training", 1, str(error))]
    tested = np.flatnonzero(test.instance_counts)
    findings = check_coverage(test.source, train.categories.names, train.instance_counts, tested, "annotations")
    if train_images is not None:
        images = _image_list(train, train_images), _image_list(test, test_images or train_images)
        findings += check_overlap(*images, by_content=by_content)
    return findings


def _image_list(data: DetectionData, images: str | os.PathLike[str]) -> ImageList:
    """The images without their annotations."""
    store = open_store(images)
    paths = tuple(existing_paths(store, data.file_names))
    return ImageList(store, paths, np.zeros(len(data), np.int64), data.categories.names, data.source)
