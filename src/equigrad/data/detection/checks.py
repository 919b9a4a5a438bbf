"""Checks of detection data before a long training: each kind of fault, how often it occurs, and how bad it is.

for finding in check_detection("train.json", "images"):
    print(finding)
"""

import os

from equigrad.data.detection.findings import FindingCollector
from equigrad.data.detection.formats.coco_annotation_checks import check_annotations
from equigrad.data.detection.formats.coco_paths import without_folders
from equigrad.data.detection.formats.coco_record_checks import CategoryFacts, ImageFacts, check_categories, check_images
from equigrad.data.detection.formats.coco_text import open_coco
from equigrad.data.findings import Finding
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
    check_annotations(found, sections.annotations, known_images, known_categories)
    _check_use(found, known_images, known_categories)
    if images is not None:
        _check_files(found, open_store(images), known_images, decode)
    return found.findings()


def _check_use(found: FindingCollector, images: dict[int, ImageFacts], categories: dict[int, CategoryFacts]) -> None:
    for image_id, image in images.items():
        if image.num_annotations == 0:
            found.add("images without annotation", f"image {image_id}: {image.path!r:.100}")
    for category_id, category in categories.items():
        if category.num_annotations == 0:
            found.add("categories without annotation", f"category {category_id}: {category.name:.60}")


def _check_files(found: FindingCollector, store: ImageStore, images: dict[int, ImageFacts], decode: bool) -> None:
    facts = [image for image in images.values() if image.path is not None]
    paths = [str(image.path) for image in facts]
    if not any(store.size(path) is not None for path in paths):
        # The store may be the folder of a single split.
        names = without_folders(paths)
        paths = list(names) if names and any(store.size(name) is not None for name in names) else paths
    for path, image in zip(paths, facts, strict=True):
        if store.size(path) is None:
            found.add("missing image files", store.name(path))
        else:
            _check_file(found, store, path, image, decode)


def _check_file(found: FindingCollector, store: ImageStore, path: str, image: ImageFacts, decode: bool) -> None:
    try:
        height, width = stored_image_size(store, path)
        if decode:
            store.read(path)
    except OSError as error:
        found.add("damaged image files", str(error))
        return
    if (height, width) != (image.height, image.width):
        case = f"{store.name(path)}: {height} x {width}, stated are {image.height} x {image.width}"
        found.add("image files of another size than stated", case)
