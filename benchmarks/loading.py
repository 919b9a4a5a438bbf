"""Images a second that one worker reads, against torchvision's reference loaders.

    python benchmarks/loading.py                       # drawn JPEG files, as large as photographs of a camera
    python benchmarks/loading.py --images DATA/coco228/images.zip
    python benchmarks/loading.py --annotations DATA/coco228/instances_train128.json --objects DATA/coco228/images.zip

A worker is one process on one core, so both loaders run in this one, in turns, on the same files, and CPU seconds are
counted. Both take the same crops. Classification is a random crop of 224 pixels and a flip, up to a uint8 tensor:
`ImageFolder` with the transforms of torchvision's reference, without its conversion to floats, which here is the
model's work. Detection is
`CocoDetection` with transforms of its reference: a random size of the shorter side up to 800 pixels and a flip.
"""

import argparse
import contextlib
import io
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import CocoDetection, ImageFolder, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.transformed_dataset import TransformedDataset
from equigrad.data.detection.transforms import LVIS_SHORT_SIDES, train_transform as detection_transform
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.readers import read_images
from equigrad.data.images.transforms import train_transform
from equigrad.engine.loading.step_loader import SampleSlot, SlotDataset
from equigrad.engine.random_state import mixed_seed, seed_cpu

Read = Callable[[int, int], Any]
"""Takes the index of an image and its position in the epoch, which decides the crop."""


def as_trained(dataset: Any) -> Read:
    """Reading as a worker of the training does it: random numbers are seeded for each sample."""
    slots = SlotDataset(dataset, 0, "stop", str)
    return lambda index, position: slots[SampleSlot(0, position, index)]


def as_published(dataset: Any) -> Read:
    """Reading with whatever random numbers are there."""
    return lambda index, position: dataset[index]


def compare(loaders: dict[str, Read], num_images: int, rounds: int) -> None:
    """Print images a CPU second of each loader, and the ratio to the first; rounds take turns, and crops are equal."""
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    for first in range(0, rounds * num_images, num_images):
        for name, read in loaders.items():
            seconds[name].append(0.0)
            for index in range(num_images):
                seed_cpu(mixed_seed(0, 0, first + index))  # what `as_trained` does once more, as part of its work
                start = time.process_time()
                read(index, first + index)
                seconds[name][-1] += (time.process_time() - start) / num_images
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    reference = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"| {name} | {1 / median:.1f} | {reference / median:.2f} |", flush=True)


def classification(root: Path, num_images: int, rounds: int) -> None:
    reference = ImageFolder(
        str(root), v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.PILToTensor()])
    )
    images, transform = read_images(root), train_transform(color_jitter=0)
    loaders = {
        "ImageFolder": as_published(reference),
        "equigrad": as_trained(ImageDataset(images, transform)),
        "equigrad, decode_size 512": as_trained(ImageDataset(images, transform, min_side=512)),
        "equigrad, decode_size 256": as_trained(ImageDataset(images, transform, min_side=256)),
    }
    compare(loaders, min(num_images, len(reference)), rounds)


def detection(annotations: Path, root: Path, num_images: int, rounds: int, with_masks: bool) -> None:
    sizes = v2.RandomShortestSize(list(LVIS_SHORT_SIDES), max_size=1333)
    steps = [v2.ToImage(), sizes, v2.RandomHorizontalFlip()]
    keys = ("boxes", "labels", "masks") if with_masks else ("boxes", "labels")
    data = read_coco(annotations)
    root = next(folder for folder in (root, *root.iterdir()) if (folder / Path(data.file_names[0]).name).exists())
    with contextlib.redirect_stdout(None):
        found = CocoDetection(str(root), str(annotations), transforms=v2.Compose(steps))
    reference = wrap_dataset_for_transforms_v2(found, target_keys=keys)
    ours = DetectionDataset(data, root, with_masks=with_masks, dense_masks=False)
    items = TransformedDataset(ours, detection_transform(short=tuple(LVIS_SHORT_SIDES)))
    name = "masks" if with_masks else "boxes"
    loaders = {f"CocoDetection, {name}": as_published(reference), f"equigrad, {name}": as_trained(items)}
    compare(loaders, min(num_images, len(reference), len(items)), rounds)


def unpacked(archive: Path, folder: Path) -> Path:
    """The photographs of an archive, not its label maps; `ImageFolder` and `CocoDetection` read folders only."""
    with zipfile.ZipFile(archive) as images:
        images.extractall(folder, [name for name in images.namelist() if name.endswith(".jpg")])
    return folder


def draw(folder: Path, side: int, num_images: int) -> Path:
    """JPEG files of smooth noise, which compress about as photographs do."""
    rng = np.random.default_rng(0)
    for number in range(num_images):
        small = Image.fromarray(rng.integers(0, 256, (side // 16, side // 12, 3), dtype=np.uint8))
        file = folder / f"category {number % 2}" / f"{number}.jpg"
        file.parent.mkdir(exist_ok=True)
        content = io.BytesIO()
        small.resize((side * 4 // 3, side), Image.Resampling.BICUBIC).save(content, "JPEG", quality=90)
        file.write_bytes(content.getvalue())
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, metavar="ZIP", help="a folder of images for each category")
    parser.add_argument("--annotations", type=Path, metavar="JSON", help="COCO's format, for --objects")
    parser.add_argument("--objects", type=Path, metavar="ZIP", help="the images of --annotations")
    parser.add_argument("--side", type=int, default=1600, help="shorter side of drawn images in pixels")
    parser.add_argument("--count", type=int, default=200, help="images of a round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if (arguments.annotations is None) != (arguments.objects is None):
        sys.exit("--annotations and --objects go together")
    torch.set_num_threads(1)
    print("| loader | images/s per worker | ratio to the first |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if arguments.objects is not None:
            objects = unpacked(arguments.objects, root)
            for with_masks in (False, True):
                detection(arguments.annotations, objects, arguments.count, arguments.rounds, with_masks)
        elif arguments.images is not None:
            classification(unpacked(arguments.images, root), arguments.count, arguments.rounds)
        else:
            classification(draw(root, arguments.side, min(arguments.count, 24)), arguments.count, arguments.rounds)


if __name__ == "__main__":
    main()
