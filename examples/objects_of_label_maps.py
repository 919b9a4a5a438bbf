"""A COCO file with masks, made from label maps: pixels of one category that touch are one object.

    python examples/objects_of_label_maps.py images_labels.zip train classes.csv train.json --categories Car Pedestrian

The archive or folder has label maps in `train/labels` and images with the same names in `train/images`. Objects of one
category that touch in the image become one object, and an object that is partly hidden may become several.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as rle

from equigrad.data.detection.formats.coco_json import write_coco
from equigrad.data.segmentation.label_maps import LabelMap
from equigrad.data.segmentation.readers import read_label_folders

MIN_PIXELS = 50  # smaller objects show nothing


def touching(labels: LabelMap) -> NDArray[np.int64]:
    """The object of each pixel (H, W), by the largest pixel index in it."""
    objects = np.arange(labels.size).reshape(labels.shape)
    while True:
        joined = objects.copy()
        for axis in (0, 1):
            length = labels.shape[axis]
            before, after = (np.moveaxis(joined, axis, 0)[part] for part in (slice(length - 1), slice(1, None)))
            is_same = np.diff(labels, axis=axis) == 0
            largest = np.where(np.moveaxis(is_same, axis, 0), np.maximum(before, after), -1)
            np.maximum(before, largest, out=before)
            np.maximum(after, largest, out=after)
        joined = joined.reshape(-1)[joined]  # follow the pixel that it points to: few rounds, however long the object
        if np.array_equal(joined, objects):
            return objects
        objects = joined


def masks_of_objects(labels: LabelMap, wanted: Sequence[int]) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Category and mask (H, W) of each object that is large enough."""
    objects = touching(labels)
    numbers, counts = np.unique(objects[np.isin(labels, wanted)], return_counts=True)
    for number in numbers[counts >= MIN_PIXELS]:
        yield int(labels.flat[number]), objects == number


def write_objects(root: Path, split: str, names: Path, categories: Sequence[str], output: Path) -> int:
    """Write the file; returns the number of objects."""
    data = read_label_folders(f"{split}/images", f"{split}/labels", names, root=root)
    for name in categories:
        if name not in data.class_names:
            raise ValueError(f"--categories: {names} has no {name}; it has {', '.join(data.class_names)}")
    wanted = [data.class_names.index(name) for name in categories]
    images, annotations = [], []
    for index, path in enumerate(data.paths):
        labels = data.read_labels(index)
        images.append({"id": index + 1, "file_name": path, "height": labels.shape[0], "width": labels.shape[1]})
        for category, mask in masks_of_objects(labels, wanted):
            runs = rle.encode(np.asfortranarray(mask, np.uint8))
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": index + 1,
                    "category_id": wanted.index(category) + 1,
                    "bbox": rle.toBbox(runs).tolist(),
                    "area": int(rle.area(runs)),
                    "iscrowd": 0,
                    "segmentation": {"size": list(labels.shape), "counts": runs["counts"].decode()},
                }
            )
    write_coco(output, images, annotations, [{"id": k, "name": name} for k, name in enumerate(categories, start=1)])
    return len(annotations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder or .zip file")
    parser.add_argument("split", help="folder in it, with `images` and `labels`")
    parser.add_argument("names", type=Path, help="file of the names of all categories")
    parser.add_argument("output", type=Path)
    parser.add_argument("--categories", nargs="+", required=True, metavar="NAME", help="those that are objects")
    parsed = parser.parse_args()
    try:
        number = write_objects(parsed.root, parsed.split, parsed.names, parsed.categories, parsed.output)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{number:,} objects are in {parsed.output}")


if __name__ == "__main__":
    main()
