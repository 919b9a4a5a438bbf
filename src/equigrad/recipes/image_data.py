"""Where the images of a classification recipe come from; each knows how to load itself."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from equigrad.data import transforms
from equigrad.data.frequency import exponential_profile
from equigrad.data.glyph_layout import GlyphData, glyph_images
from equigrad.data.glyph_scenes import PORTRAIT, Split
from equigrad.data.image_lists import ImageDataset, ImageList, read_image_folder, read_image_list
from equigrad.data.image_stores import ArrayStore
from equigrad.data.published_lists import Benchmark, read_published


class ImageData(Protocol):
    """A training and a test set."""

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Both sets; raises ValueError or OSError with one line that says what is missing where."""
        ...


@dataclass(frozen=True)
class GlyphImages:
    """Rendered glyphs, drawn in memory: a long-tailed training set and a balanced test set.

    Args:
        num_classes: C.
        max_count: training images of the most frequent category.
        imbalance_factor: its count over that of the rarest, on an exponential profile.
        test_count: test images of each category.
        difficulty: of the drawings, 0 to 1.
        image_size: in pixels.
        seed: same seed, same images.
    """

    num_classes: int = 60
    max_count: int = 300
    imbalance_factor: float = 100.0
    test_count: int = 20
    difficulty: float = 0.5
    image_size: int = 32
    seed: int = 0

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Draw both sets."""
        augment = transforms.small_train_transform(self.image_size, padding=2)
        plain = transforms.small_evaluation_transform(self.image_size)
        return ImageDataset(self._images("train"), augment), ImageDataset(self._images("test"), plain)

    def _images(self, split: Split) -> ImageList:
        counts = exponential_profile(self.num_classes, self.max_count, self.imbalance_factor)
        data = GlyphData(counts, eval_count=self.test_count, seed=self.seed)
        style = replace(PORTRAIT, image_size=self.image_size).at_difficulty(self.difficulty)
        images, labels = glyph_images(data, split, style=style)
        store = ArrayStore(images, Path(f"glyphs of {split}"))
        paths = tuple(str(index) for index in range(len(labels)))
        return ImageList(store, paths, labels, data.glyphs().names, f"glyphs ({split})")


@dataclass(frozen=True)
class OwnImages:
    """A user's images.

    Args:
        train: a list of lines `path label`, or a folder with a folder of images for each category.
        test: the same.
        root: what the paths of a list start from, a folder or a zip file; None is the folder of the list.
        size: of the images the model sees.
        photographs: random crops, flips and colour jitter, for photographs; else only small shifts.
    """

    train: Path = Path("train")
    test: Path = Path("test")
    root: Path | None = None
    size: int = 224
    photographs: bool = True

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Read both sets; the test set has the categories of the training set."""
        train = self._read(self.train, None)
        test = self._read(self.test, train.class_names)
        if self.photographs:
            resize = round(self.size * 256 / 224)
            return (
                ImageDataset(train, transforms.train_transform(self.size)),
                ImageDataset(test, transforms.evaluation_transform(self.size, resize=resize)),
            )
        return (
            ImageDataset(train, transforms.small_train_transform(self.size)),
            ImageDataset(test, transforms.small_evaluation_transform(self.size)),
        )

    def _read(self, source: Path, class_names: tuple[str, ...] | None) -> ImageList:
        if not source.exists():
            raise FileNotFoundError(f"{source}: no such list or folder; set data.train and data.test")
        if source.is_dir():
            return read_image_folder(source, class_names=class_names)
        return read_image_list(source, self.root or source.parent, class_names=class_names)


@dataclass(frozen=True)
class PublishedImages:
    """ImageNet-LT, Places-LT or iNaturalist 2018 in its published layout.

    Args:
        benchmark: which one.
        root: what the paths of its lists start from; the lists are there too unless `lists` says where.
        lists: the folder of the lists.
        size: of the images the model sees.
        color_jitter: of the training images.
    """

    benchmark: Benchmark
    root: Path = Path("data")
    lists: Path | None = None
    size: int = 224
    color_jitter: float = 0.4

    def load(self) -> tuple[ImageDataset, ImageDataset]:
        """Read both sets."""
        read = partial(read_published, self.benchmark, self.root, lists=self.lists)
        augment = transforms.train_transform(self.size, color_jitter=self.color_jitter)
        return ImageDataset(read("train"), augment), ImageDataset(
            read("test"), transforms.evaluation_transform(self.size)
        )
