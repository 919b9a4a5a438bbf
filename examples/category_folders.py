"""Folders with one folder of images for each category, made of other kinds of data.

    python examples/category_folders.py objects instances.json images.zip crops/train
    python examples/category_folders.py drawings characters.zip characters --imbalance-factor 15
    python examples/category_folders.py regions label_maps.zip train regions/train

`objects` cuts every box out of the images of a COCO file. `regions` cuts the box around each category of a label map,
from an archive with the folders `train/images` and `train/labels`. `drawings` takes an archive of nested folders, such
as Omniglot's `alphabet/character/drawing.png`: a quarter of each innermost folder becomes the test set, and the rest a
long-tailed training set.
"""

import argparse
import io
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from PIL import Image

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.held_out import held_out_of_each_category
from equigrad.data.images.lists import SUFFIXES, ImageList
from equigrad.data.images.stores import ZipStore, open_store
from equigrad.data.long_tail import long_tailed

MIN_SIDE = 8  # pixels; smaller objects show nothing
MAX_SHARE = 0.25  # of an image; larger regions, as of a road, show all else as well


def cut_objects(annotations: Path, images: Path, output: Path) -> int:
    """Write the objects of an annotation file, crowds left out; returns how many."""
    data, store, num_written = read_coco(annotations), open_store(images), 0
    for index in range(len(data)):
        picture = store.read(data.file_names[index])
        for annotation in range(*data.annotations_of(index).indices(data.num_annotations)):
            left, top, right, bottom = data.boxes[annotation].round().astype(int).tolist()
            if data.is_crowd[annotation] or min(right - left, bottom - top) < MIN_SIDE:
                continue
            folder = output / folder_name(data.categories.names[data.labels[annotation]])
            save(picture.crop((left, top, right, bottom)), folder / f"{data.ids[annotation]}.png")
            num_written += 1
    return num_written


def cut_regions(archive: Path, split: str, output: Path) -> int:
    """Write the box around all pixels of a category in an image, for each category; returns how many."""
    store, num_written = ZipStore(archive), 0
    for path in sorted(path for path in store.paths() if path.startswith(f"{split}/images/")):
        name, picture = PurePosixPath(path).stem, store.read(path)
        labels = np.asarray(Image.open(io.BytesIO(store.content(f"{split}/labels/{name}.png"))))
        for label in np.setdiff1d(labels, [255]).tolist():
            rows, columns = (np.flatnonzero((labels == label).any(axis)) for axis in (1, 0))
            top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
            share = (bottom - top) * (right - left) / labels.size
            if min(bottom - top, right - left) >= MIN_SIDE and share <= MAX_SHARE:
                save(picture.crop((left, top, right, bottom)), output / str(label) / f"{name}.png")
                num_written += 1
    return num_written


def draw_long_tail(archive: Path, output: Path, imbalance_factor: float) -> int:
    """Write a long-tailed training set and a test set; returns how many images both have."""
    store = ZipStore(archive)
    paths = [path for path in sorted(store.paths()) if path.lower().endswith(SUFFIXES)]
    names = [folder_name(" ".join(PurePosixPath(path).parts[-3:-1])) for path in paths]
    class_names, labels = np.unique(names, return_inverse=True)
    whole = ImageList(store, tuple(paths), labels, tuple(class_names.tolist()), str(archive))
    kept, test = held_out_of_each_category(torch.as_tensor(labels), 0.25)
    train = long_tailed(whole.subset(kept.numpy()), imbalance_factor, order="random")
    for split, images in (("train", train), ("test", whole.subset(test.numpy()))):
        write_images(images, output / split)
    return len(train) + len(test)


def write_images(images: ImageList, output: Path) -> None:
    for path, label in zip(images.paths, images.labels, strict=True):
        save(images.store.read(path), output / images.class_names[label] / f"{PurePosixPath(path).stem}.png")


def folder_name(name: str) -> str:
    """A name as one part of a path, whatever it contains."""
    kept: Iterable[str] = (letter if letter.isalnum() or letter in " _-" else "_" for letter in name)
    return "".join(kept).strip() or "_"


def save(image: Image.Image, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    image.save(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    objects = kinds.add_parser("objects", help="boxes of a COCO file")
    objects.add_argument("annotations", type=Path)
    objects.add_argument("images", type=Path, help="folder or .zip file")
    drawings = kinds.add_parser("drawings", help="nested folders in a .zip file")
    drawings.add_argument("archive", type=Path)
    regions = kinds.add_parser("regions", help="categories of label maps in a .zip file")
    regions.add_argument("archive", type=Path)
    regions.add_argument("split", help="folder in it, with `images` and `labels`")
    for kind in (objects, drawings, regions):
        kind.add_argument("output", type=Path)
    drawings.add_argument("--imbalance-factor", type=float, default=15.0)
    parsed = parser.parse_args()
    try:
        if parsed.kind == "objects":
            number = cut_objects(parsed.annotations, parsed.images, parsed.output)
        elif parsed.kind == "regions":
            number = cut_regions(parsed.archive, parsed.split, parsed.output)
        else:
            number = draw_long_tail(parsed.archive, parsed.output, parsed.imbalance_factor)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{number:,} images are in {parsed.output}")


if __name__ == "__main__":
    main()
