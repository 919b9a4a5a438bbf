"""Stand-ins for real data: its format, categories and size, with images that take no room, to try recipes on."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from equigrad.data.frequency import Counts, load_frequencies, pareto_profile, scale_counts
from equigrad.data.images.multi_label import FILE as LABEL_FILE
from equigrad.data.images.published_lists import PUBLISHED, Benchmark
from equigrad.tasks.classification.data import ImageData, ManyLabels, OwnImages, PublishedImages

IMAGE_SIZE = 32  # of what the model sees

_INATURALIST_IMAGES = 437_513
_NUM_TEST = 4
_NUM_KINDS = 16  # of different images
# Where the published lists have the image of a category, in training and test.
_PLACES: dict[Benchmark, tuple[str, str]] = {
    "imagenet_lt": ("train/n{label:08d}/n{label:08d}_1.JPEG", "val/n{label:08d}/ILSVRC2012_val_{label:08d}.JPEG"),
    "places_lt": ("data_256/a/place_{label}/00000001.jpg", "val_256/Places365_val_{label:08d}.jpg"),
    "inaturalist18": ("train_val2018/Plantae/{label}/a.jpg", "train_val2018/Plantae/{label}/b.jpg"),
}


def generated_images(data: ImageData, folder: Path) -> ImageData:
    """The same data settings on generated files; data that draws itself stays as it is."""
    if isinstance(data, PublishedImages):
        root = folder / data.benchmark
        if not root.exists():
            write_benchmark(data.benchmark, root)
        return replace(data, root=root, lists=None, size=IMAGE_SIZE)
    if isinstance(data, OwnImages):
        root = folder / "own"
        if not root.exists():
            write_folders(root / "train", [6, 3, 1])
            write_folders(root / "test", [1, 1, 1])
        return replace(data, train=root / "train", test=root / "test", root=None, size=IMAGE_SIZE)
    if isinstance(data, ManyLabels):
        root = folder / "many_labels"
        if not root.exists():
            write_many_labels(root)
        return replace(data, train=root, test=root, root=None, size=IMAGE_SIZE)
    return data


def write_benchmark(benchmark: Benchmark, root: Path) -> None:
    """A benchmark in its published layout: true numbers of categories and training images, one file per category.

    A list names the file of a category as often as the category has images.
    """
    counts, (train, test) = benchmark_counts(benchmark), _PLACES[benchmark]
    files = PUBLISHED[benchmark].files
    lists: dict[str, list[str]] = {name: [] for name in files.values()}
    for label, (count, image) in enumerate(zip(counts.tolist(), _images(len(counts)), strict=True)):
        lists[files["train"]] += [f"{_written(root, train.format(label=label), image)} {label}\n"] * count
    tested = np.linspace(0, len(counts) - 1, _NUM_TEST).astype(int).tolist()
    for label, image in zip(tested, _images(_NUM_TEST), strict=True):
        for name in {files["val"], files["test"]}:
            lists[name].append(f"{_written(root, test.format(label=label), image)} {label}\n")
    for name, lines in lists.items():
        (root / name).write_text("".join(lines), encoding="utf-8")


def benchmark_counts(benchmark: Benchmark) -> Counts:
    """Training images of each category: exact for Places-LT, of the right total and range for the others."""
    if benchmark == "inaturalist18":
        profile = pareto_profile(PUBLISHED[benchmark].num_classes, max_count=1000, imbalance_factor=500)
        return scale_counts(profile, _INATURALIST_IMAGES)
    names: dict[Benchmark, str] = {"imagenet_lt": "imagenet_lt_like", "places_lt": "places_lt"}
    return load_frequencies(names[benchmark]).image_counts


def write_folders(root: Path, counts: list[int]) -> None:
    """A folder of images for each category."""
    for label, count in enumerate(counts):
        for number, image in enumerate(_images(count, seed=label)):
            _written(root, f"category_{label}/{number}.jpg", image)


def write_many_labels(root: Path) -> None:
    """Three images, with two, one and none of two categories, and their label file."""
    rows = [
        f"{_written(root, f'{number}.jpg', image)},{categories}\n"
        for number, (image, categories) in enumerate(zip(_images(4), ("a;b", "a", "a", ""), strict=True))
    ]
    (root / LABEL_FILE).write_text("".join(["image,categories\n", *rows]), encoding="utf-8")


def _written(root: Path, path: str, image: bytes) -> str:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(image)
    return path


def _images(count: int, seed: int = 0) -> list[bytes]:
    """JPEG files of noise; encoding is slow, so only a few of them differ."""
    rng = np.random.default_rng((seed, count))
    kinds = [_encoded(rng.integers) for _ in range(min(count, _NUM_KINDS))]
    return [kinds[index % len(kinds)] for index in range(count)]


def _encoded(draw: Callable[..., Counts]) -> bytes:
    pixels = draw(0, 256, (2 * IMAGE_SIZE, 2 * IMAGE_SIZE, 3)).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG", quality=50)
    return content.getvalue()
