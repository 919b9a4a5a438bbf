"""Stand-ins for segmentation data: its layout and categories, with a few small images of noise, to try recipes on."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.tasks.segmentation.data import Ade20k, CamVid, LabelFolders, SegmentationSource

Pixels = NDArray[np.uint8]

CROP_SIZE = 64  # of what the model is trained on

_BASE = (4 * CROP_SIZE, CROP_SIZE)
_NUM_TRAIN, _NUM_TEST = 8, 2
_NUM_ADE20K, _NUM_CAMVID, _NUM_OWN = 150, 31, 5


def generated_scenes(data: SegmentationSource, folder: Path) -> SegmentationSource:
    """The same data settings on generated files; data that draws itself stays as it is."""
    if isinstance(data, Ade20k):
        root = folder / "ade20k"
        if not root.exists():
            write_ade20k(root)
        train_list = None if data.train_list is None else root / "train.txt"
        return replace(data, root=root, train_list=train_list, crop_size=CROP_SIZE, base=_BASE)
    if isinstance(data, CamVid):
        root = folder / "camvid"
        if not root.exists():
            write_camvid(root)
        return replace(data, root=root, crop_size=(CROP_SIZE, CROP_SIZE))
    if isinstance(data, LabelFolders):
        root = folder / "own_scenes"
        if not root.exists():
            write_label_folders(root)
        names, crop_size = root / "names.txt", (CROP_SIZE, CROP_SIZE)
        return LabelFolders(Path("images"), Path("labels"), names, root=root, crop_size=crop_size, base=_BASE)
    return data


def write_ade20k(root: Path) -> None:
    """The layout of the scene parsing challenge, and a list of some training images."""
    for split, count in (("training", _NUM_TRAIN), ("validation", _NUM_TEST)):
        for number in range(count):
            name = f"ADE_{split}_{number:08d}"
            image, labels = _scene(number, range(_NUM_ADE20K + 1))
            _write(root / "images" / split / f"{name}.jpg", _encoded(image, "JPEG"))
            _write(root / "annotations" / split / f"{name}.png", _encoded(labels, "PNG"))
    listed = [f"ADE_training_{number:08d}\n" for number in range(0, _NUM_TRAIN, 2)]
    (root / "train.txt").write_text("".join(listed), encoding="utf-8")


def write_camvid(root: Path) -> None:
    """The archive and the table of categories."""
    root.mkdir(parents=True)
    rows = [f"{label},category {label}\n" for label in range(_NUM_CAMVID)]
    (root / "classes.csv").write_text("".join(["id,name\n", *rows]), encoding="utf-8")
    with zipfile.ZipFile(root / "images_labels.zip", "w") as archive:
        for split, count in (("train", _NUM_TRAIN), ("test", _NUM_TEST)):
            for number in range(count):
                image, labels = _scene(number, range(_NUM_CAMVID))
                archive.writestr(f"{split}/images/{number}.jpg", _encoded(image, "JPEG"))
                archive.writestr(f"{split}/labels/{number}.png", _encoded(labels, "PNG"))


def write_label_folders(root: Path) -> None:
    """A folder of images, one of label maps with the same names, and a file of category names."""
    for number in range(_NUM_TRAIN + _NUM_TEST):
        image, labels = _scene(number, range(_NUM_OWN))
        _write(root / "images" / f"{number}.jpg", _encoded(image, "JPEG"))
        _write(root / "labels" / f"{number}.png", _encoded(labels, "PNG"))
    names = [f"category {label}\n" for label in range(_NUM_OWN)]
    (root / "names.txt").write_text("".join(names), encoding="utf-8")


def _scene(number: int, values: Sequence[int]) -> tuple[Pixels, Pixels]:
    """An image of noise and a label map of squares with random values; sizes differ from image to image."""
    rng = np.random.default_rng(number)
    rows, columns = 5 + number % 2, 8
    labels = np.kron(rng.choice(values, (rows, columns)), np.ones((16, 16))).astype(np.uint8)
    return rng.integers(0, 256, (*labels.shape, 3), dtype=np.uint8), labels


def _encoded(pixels: Pixels, kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
