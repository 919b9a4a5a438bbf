"""Where the images and label maps of a segmentation recipe come from; each knows how to load itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equigrad.data.frequency import Counts
from equigrad.data.held_out import held_out
from equigrad.data.segmentation.category_pixels import count_pixels, show_progress
from equigrad.data.segmentation.data import SegmentationData, SegmentationDataset
from equigrad.data.segmentation.readers import read_ade20k, read_camvid, read_label_folders
from equigrad.data.segmentation.transforms import evaluation_transform, train_transform
from equigrad.engine.distributed import from_first_rank, ranks
from equigrad.evaluation.segmentation import GroupBy
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes

Sets = tuple[SegmentationDataset, SegmentationDataset]
Size = tuple[int, int]


@dataclass(frozen=True)
class Ade20k:
    """ADE20K in the layout of the scene parsing challenge, or a part of it.

    Args:
        root: the folder or archive with `images` and `annotations`.
        train_list: names of the training images, one per line, as `equigrad data ade20k-lt` writes; None is all.
        crop_size: side of the square training crops.
        base: (longer side, shorter side) of the box that an image is resized to fit.
        group_by: "index" is the categories' own order, which is that of their pixels, as in the paper.
    """

    root: Path = Path("ADEChallengeData2016")
    train_list: Path | None = None
    crop_size: int = 512
    base: Size | None = (2048, 512)
    group_by: GroupBy = "index"

    def load(self) -> Sets:
        """Read training and validation images; the list, if there is one, chooses among the training images."""
        if not self.root.exists():
            raise FileNotFoundError(f"{self.root}: no such folder or archive; name that of ADE20K: --set data.root=…")
        if self.train_list is not None and not self.train_list.is_file():
            raise FileNotFoundError(
                f"{self.train_list}: no such list of training images; `equigrad data ade20k-lt` makes one, and "
                "--set data.train_list=FILE names it"
            )
        train, test = read_ade20k(self.root, "training"), read_ade20k(self.root, "validation")
        if self.train_list is not None:
            train = train.listed(self.train_list)
        augment = train_transform(self.crop_size, base=self.base)
        return SegmentationDataset(train, augment), _test_set(test)


@dataclass(frozen=True)
class LabelFolders:
    """A user's images and index PNGs: the value of a pixel is its category.

    Args:
        images: folder of images.
        labels: folder of label maps, named like the images.
        names: names of the categories: a `.txt` file whose line k, from 0, names value k, or a `.csv` file with the
            columns `id` and `name`.
        test_images: folder of test images; None holds out some of the images.
        test_labels: folder of the test images' label maps.
        test_share: share of the images that is held out if there are no test images.
        train_list: names of the images, one per line, as `equigrad data ade20k-lt` writes; None is all. Without
            test images, some of these are held out.
        root: folder or `.zip` file that the four folders are relative to.
        ignored: values of pixels that are ignored.
        crop_size: (height, width) of the training crops.
        base: (longer side, shorter side) of the box that an image is resized to fit; None keeps its size.
        scale: range of the random factor by which training images are also resized.
        group_by: "count" makes the head, medium and tail groups by training pixels, "index" by label.
    """

    images: Path = Path("images")
    labels: Path = Path("labels")
    names: Path = Path("classes.txt")
    test_images: Path | None = None
    test_labels: Path | None = None
    test_share: float = 0.2
    train_list: Path | None = None
    root: Path = Path(".")
    ignored: tuple[int, ...] = (255,)
    crop_size: Size = (320, 320)
    base: Size | None = (1280, 320)
    scale: tuple[float, float] = (0.5, 2.0)
    group_by: GroupBy = "count"

    def load(self) -> Sets:
        """Read the folders; without test folders a share of the images is held out."""
        if (self.test_images is None) != (self.test_labels is None):
            raise ValueError("give both data.test_images and data.test_labels, or neither")
        if not self.names.is_file():
            raise FileNotFoundError(f"{self.names}: no such file of category names; name yours with --set data.names=…")
        train = self._read(self.images, self.labels)
        if self.train_list is not None:
            train = train.listed(self.train_list)
        if self.test_images is None or self.test_labels is None:
            train, test = held_out(train, self.test_share)
        else:
            test = self._read(self.test_images, self.test_labels)
        augment = train_transform(self.crop_size, base=self.base, scale=self.scale)
        return SegmentationDataset(train, augment), _test_set(test)

    def _read(self, images: Path, labels: Path) -> SegmentationData:
        return read_label_folders(images, labels, self.names, root=self.root, ignored=self.ignored)


@dataclass(frozen=True)
class CamVid:
    """CamVid with 31 categories: 421 frames of 480 x 360 to train and 168 to test.

    Args:
        root: folder with `classes.csv` and `images_labels.zip`.
        crop_size: (height, width) of the training crops.
        base: size to which frames are resized; None keeps their size.
        scale: range of the random factor by which training images are also resized.
        group_by: "count" makes the head, medium and tail groups by training pixels, "index" by label.
    """

    root: Path = Path("camvid")
    crop_size: Size = (192, 256)
    base: Size | None = None
    scale: tuple[float, float] = (0.5, 1.25)
    group_by: GroupBy = "count"

    def load(self) -> Sets:
        """Read the frames of both splits from the archive."""
        for name in ("classes.csv", "images_labels.zip"):
            if not (self.root / name).is_file():
                raise FileNotFoundError(f"{self.root / name}: no such file; name the folder with --set data.root=…")
        augment = train_transform(self.crop_size, base=self.base, scale=self.scale)
        return SegmentationDataset(read_camvid(self.root, "train"), augment), _test_set(read_camvid(self.root, "test"))


SegmentationSource = GlyphScenes | Ade20k | LabelFolders | CamVid
"""A training and a test set: `load()` reads both, or raises ValueError or OSError with one line on what is missing.

`base` is (longer side, shorter side) of the box that an image fills when the model sees it, None being its own size;
`group_by` is what makes head, medium and tail: see `SegmentationEvaluator`.
"""


def training_pixels(train_set: SegmentationDataset, num_workers: int) -> Counts:
    """Training pixels of each category, (C,), counted by the first rank; finds label maps that are wrong on the way."""
    counts: Any = None
    if ranks()[0] == 0:
        counts = count_pixels(train_set.data, num_workers=num_workers, progress=show_progress).pixel_counts
    pixels: Counts = from_first_rank(counts)
    return pixels


def _test_set(data: SegmentationData) -> SegmentationDataset:
    """Images as they are: the model's inference decides on the size it sees, and answers at theirs."""
    return SegmentationDataset(data, evaluation_transform(None))
