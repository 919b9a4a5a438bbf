"""Made files in the form of the OpenImages Challenge 2019: boxes, verified labels, classes, hierarchy and images."""

import json
import os
from pathlib import Path

import numpy as np
from PIL import Image

from equigrad.data.detection.formats.openimages import BOXES_FILE, CLASSES_FILE, HIERARCHY_FILE, LABELS_FILE

NUM_CLASSES = 500
NUM_SIZES = 60  # a file system allows tens of thousands of links to one file
ROWS_AT_ONCE = 200_000
HEADER = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n"


def write_openimages(root: Path, num_images: int, num_boxes: int, *, num_validation: int = 2000, seed: int = 0) -> None:
    """`annotations` and `images` below a folder: images are links to a few small ones, as only headers are read."""
    rng = np.random.default_rng(seed)
    annotations = root / "annotations"
    annotations.mkdir(parents=True)
    mids = [f"/m/{number:05x}" for number in range(NUM_CLASSES)]
    (annotations / CLASSES_FILE).write_text("".join(f"{mid},class {mid[3:]}\n" for mid in mids))
    tree = {"LabelName": "/m/root", "Subcategory": [{"LabelName": mid} for mid in mids]}
    (annotations / HIERARCHY_FILE).write_text(json.dumps(tree))
    for split, images, boxes in (("train", num_images, num_boxes), ("validation", num_validation, num_validation * 5)):
        _write_boxes(annotations / BOXES_FILE.format(split=split), images, boxes, mids, rng)
        _link_images(root / "images" / split, images)
    with (annotations / LABELS_FILE.format(split="validation")).open("w") as stream:
        stream.write("ImageID,LabelName,Confidence\n")
        stream.writelines(f"{image:016x},{mids[image % NUM_CLASSES]},{image % 2}\n" for image in range(num_validation))


def _write_boxes(file: Path, num_images: int, num_boxes: int, mids: list[str], rng: np.random.Generator) -> None:
    """Rows by image, as in the published file: each image has a few categories of a long tail, often repeated."""
    weights = 1 / np.arange(1, NUM_CLASSES + 1)
    weights /= weights.sum()
    images = np.sort(np.concatenate([np.arange(num_images), rng.integers(num_images, size=num_boxes - num_images)]))
    with file.open("w") as stream:
        stream.write(HEADER)
        for start in range(0, num_boxes, ROWS_AT_ONCE):
            rows = images[start : start + ROWS_AT_ONCE]
            # Two of three boxes have the category of their image.
            labels = np.where(rng.random(len(rows)) < 0.67, rows % 40, rng.choice(NUM_CLASSES, len(rows), p=weights))
            low, side = rng.random((len(rows), 2)) * 0.6, 0.01 + rng.random((len(rows), 2)) * 0.35
            numbers = np.stack([low[:, 0], low[:, 0] + side[:, 0], low[:, 1], low[:, 1] + side[:, 1]], 1)
            stream.writelines(
                f"{image:016x},{mids[label]},{x1:.6f},{x2:.6f},{y1:.6f},{y2:.6f},0\n"
                for image, label, (x1, x2, y1, y2) in zip(rows.tolist(), labels.tolist(), numbers.tolist(), strict=True)
            )


def _link_images(folder: Path, num_images: int) -> None:
    folder.mkdir(parents=True)
    sources = [folder / f"source {number}.jpeg" for number in range(NUM_SIZES)]
    for number, source in enumerate(sources):
        Image.new("RGB", (1024 - number, 683)).save(source)
    for image in range(num_images):
        os.link(sources[image % NUM_SIZES], folder / f"{image:016x}.jpg")
