"""Where the images of a classification recipe come from; each knows how to load itself."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import torch

from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs.layout import GlyphData, glyph_images
from equigrad.data.glyphs.scenes import PORTRAIT, Split
from equigrad.data.held_out import held_out, held_out_of_each_category
from equigrad.data.images import transforms
from equigrad.data.images.checks import check_several_categories
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.folders import folder_with
from equigrad.data.images.lists import ImageList
from equigrad.data.images.multi_label import read_multi_label
from equigrad.data.images.published_lists import Benchmark, read_published
from equigrad.data.images.readers import read_images
from equigrad.data.images.stores import ArrayStore, check_source

_TEST_SHARE = 0.2
_NUM_TRIED = 20  # images of a list that are looked for at its start


@dataclass(frozen=True)
class GlyphImages:
    """Rendered glyphs, drawn in memory: a long-tailed training set and a balanced test set.

    Args:
        num_classes: number of categories, C.
        max_count: training images of the most frequent category.
        imbalance_factor: its count over that of the rarest, on an exponential profile.
        test_count: test images of each category.
        difficulty: how hard the drawings are, 0 to 1.
        image_size: side of an image in pixels.
        seed: random seed of the images.
    """

    num_classes: int = 40
    max_count: int = 300
    imbalance_factor: float = 100.0
    test_count: int = 20
    difficulty: float = 0.5
    image_size: int = 32
    seed: int = 0

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Draw the long-tailed training set and the balanced test set."""
        augment = transforms.small_train_transform(self.image_size, padding=2)
        return ImageDataset(_drawn(self, "train"), augment), ImageDataset(
            _drawn(self, "test"), self.evaluation_transform()
        )

    def evaluation_transform(self) -> transforms.Transform:
        """What happens to test images."""
        return transforms.small_evaluation_transform(self.image_size)


@lru_cache(maxsize=2)
def _drawn(settings: GlyphImages, split: Split) -> ImageList:
    """The images of a split; kept, because the runs of a comparison draw the same ones."""
    counts = exponential_profile(settings.num_classes, settings.max_count, settings.imbalance_factor)
    data = GlyphData(counts, eval_count=settings.test_count, seed=settings.seed)
    style = replace(PORTRAIT, image_size=settings.image_size).at_difficulty(settings.difficulty)
    images, labels = glyph_images(data, split, style=style)
    store = ArrayStore(images, Path(f"glyphs of {split}"))
    paths = tuple(str(index) for index in range(len(labels)))
    return ImageList(store, paths, labels, data.glyphs().names, f"glyphs ({split})")


@dataclass(frozen=True)
class OwnImages:
    """A user's images.

    Args:
        train: a list of lines `path label`, a CSV file with the columns `image` and `label`, a folder (or `.zip` file)
            with a folder of images for each category, a `.npz` file of arrays, or the folder of CIFAR's binary version.
        test: the test set, in the same form; None holds out a fifth of the training images of each category.
        root: folder, `.zip` or `.npz` file that the paths of a list are relative to; None is the folder of the list.
        size: side of the model's square input.
        photographs: augment with random crops, flips and colour jitter, for photographs; otherwise only small shifts.
        decode_size: decode training JPEGs at 1/2, 1/4 or 1/8 of their size while both sides keep this many pixels:
            faster for large photographs, but pixels differ slightly. None decodes the full size.
    """

    train: Path = Path("train")
    test: Path | None = Path("test")
    root: Path | None = None
    size: int = 224
    photographs: bool = True
    decode_size: int | None = None

    def __post_init__(self) -> None:
        check_decode_size(self.decode_size)

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Read both sets; the test set has the categories of the training set."""
        for name, source in (("data.train", self.train), ("data.test", self.test)):
            if source is not None:
                check_source(source, name)
        train = read_images(self.train, self.root)
        _check_root(train)
        check_several_categories(train)
        if self.test is None:
            train, test = _without_held_out(train)
        else:
            test = read_images(self.test, self.root, split="test", class_names=train.class_names)
        small = transforms.small_train_transform
        augment = transforms.train_transform(self.size) if self.photographs else small(self.size)
        return ImageDataset(train, augment, self.decode_size), ImageDataset(test, self.evaluation_transform())

    def evaluation_transform(self) -> transforms.Transform:
        """What happens to test images."""
        return _centre(self.size) if self.photographs else transforms.small_evaluation_transform(self.size)


@dataclass(frozen=True)
class PublishedImages:
    """ImageNet-LT, Places-LT or iNaturalist 2018 in its published layout.

    Args:
        benchmark: which benchmark.
        root: folder that the paths of its lists are relative to; also the folder of the lists, if `lists` is none.
        lists: folder of the lists, if different.
        size: side of the model's square input.
        color_jitter: strength of colour jitter on training images.
        decode_size: decode training JPEGs at 1/2, 1/4 or 1/8 of their size while both sides keep this many pixels:
            faster for large photographs, but pixels differ slightly. None decodes the full size.
    """

    benchmark: Benchmark
    root: Path = Path("data")
    lists: Path | None = None
    size: int = 224
    color_jitter: float = 0.4
    decode_size: int | None = None

    def __post_init__(self) -> None:
        check_decode_size(self.decode_size)

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Read the published training and test lists; FileNotFoundError says which files to place where."""
        read = partial(read_published, self.benchmark, self.root, lists=self.lists)
        augment = transforms.train_transform(self.size, color_jitter=self.color_jitter)
        train = ImageDataset(read("train"), augment, self.decode_size)
        return train, ImageDataset(read("test"), self.evaluation_transform())

    def evaluation_transform(self) -> transforms.Transform:
        """What happens to test images."""
        return _centre(self.size)


@dataclass(frozen=True)
class ManyLabels:
    """A user's images, with any number of categories each.

    Args:
        train: a CSV file with the columns `image` and `categories` (names with `;` between them) or with a column of
            0 and 1 for each category, a folder of images with such a file, `labels.csv`, or a COCO or LVIS file, in
            which an image has the categories of its objects.
        test: the test set, in the same form; None holds out a fifth of the training images.
        root: folder or `.zip` that the paths are relative to; None is the folder of the file.
        size: side of the model's square input.
    """

    train: Path = Path("train.csv")
    test: Path | None = Path("test.csv")
    root: Path | None = None
    size: int = 224

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Read both sets; the test set has the categories of the training set."""
        for name, source in (("data.train", self.train), ("data.test", self.test)):
            if source is not None:
                check_source(source, name)
        train = read_multi_label(self.train, self.root)
        _check_root(train)
        if self.test is None:
            train, test = held_out(train, _TEST_SHARE)
        else:
            test = read_multi_label(self.test, self.root, class_names=train.class_names)
        augment = transforms.train_transform(self.size)
        return ImageDataset(train, augment), ImageDataset(test, self.evaluation_transform())

    def evaluation_transform(self) -> transforms.Transform:
        """What happens to test images."""
        return _centre(self.size)


def check_decode_size(decode_size: int | None) -> None:
    """Refuse what no image can have."""
    if decode_size is not None and decode_size < 1:
        raise ValueError(f"decode_size must be above 0, got {decode_size}")


def _check_root(images: ImageList) -> None:
    """FileNotFoundError if none of some images that the file of a user names is there: its paths start elsewhere."""
    tried = images.paths[:: -(-len(images) // _NUM_TRIED)]
    if all(images.store.size(path) is None for path in tried):
        found = folder_with(images.store, tried)
        root = "FOLDER" if found is None else images.store.name(found)
        raise FileNotFoundError(
            f"{images.store.name(images.paths[0])}: no such image; --set data.root={root} (--root in other commands) "
            f"says where the paths of {images.source} start"
        )


def _without_held_out(images: ImageList) -> tuple[ImageList, ImageList]:
    if images.category_counts.max() < 2:
        raise ValueError(f"{images.source}: no category has two images or more; name a test set with --set data.test=…")
    kept, test = held_out_of_each_category(torch.as_tensor(images.labels), _TEST_SHARE)
    return images.subset(kept.sort().values.numpy()), images.subset(test.sort().values.numpy())


def _centre(size: int) -> transforms.Transform:
    """The shorter side to 256, the centre of 224; for other sizes in the same proportion."""
    return transforms.evaluation_transform(size, resize=round(size * 256 / 224))


ImageData = GlyphImages | OwnImages | PublishedImages | ManyLabels
"""A training and a test set: `load()` reads both, or raises ValueError or OSError with one line on what is missing."""
