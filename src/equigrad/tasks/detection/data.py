"""Where the images and annotations of a detection recipe come from; each knows how to load itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.coco_index import indexed_coco
from equigrad.data.detection.formats.openimages import OpenImagesData
from equigrad.data.detection.formats.openimages_index import indexed_openimages
from equigrad.data.frequency import Counts, exponential_profile, load_frequencies, pick_categories
from equigrad.data.glyphs.files import write_detection
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.glyphs.scenes import SCENE
from equigrad.data.glyphs.writing import MANIFEST
from equigrad.data.held_out import held_out
from equigrad.data.images.stores import check_source
from equigrad.evaluation.detection.evaluator import DetectionEvaluator, Protocol as Benchmark
from equigrad.evaluation.detection.openimages import OpenImagesEvaluator

IouTypes = tuple[Literal["bbox", "segm"], ...]
Images = NDArray[np.int64]


class Evaluator(Protocol):
    """Collects detections of the test set; every rank calls `result` and gets the same."""

    def add(self, predictions: Sequence[Any], targets: Sequence[Any]) -> None:
        """Detections of images, in pixels of the files."""

    def result(self) -> dict[str, float]:
        """Metrics with the paper's names."""

    def per_category(self) -> Sequence[Any]:
        """A row for each category."""


@dataclass(frozen=True, eq=False)
class DetectionSets:
    """Training and test images as they are, and how detections in the latter are evaluated.

    Args:
        train: training images.
        test: test images.
        evaluator: from a folder for predictions, what is compared, and the indices of some test images or None for all,
            to the evaluator of these images.
    """

    train: DetectionDataset
    test: DetectionDataset
    evaluator: Callable[[Path, IouTypes, Images | None], Evaluator]

    def minival(self, num_images: int | None) -> Images | None:
        """Indices of so many test images, drawn at random, the same each time; None if that is all of them."""
        if num_images is None or num_images >= len(self.test):
            return None
        return np.sort(np.random.default_rng(0).permutation(len(self.test))[:num_images])


@dataclass(frozen=True)
class CocoFiles:
    """Annotations in the format of LVIS or COCO.

    Args:
        train: annotation file.
        test: annotation file; None holds out some of the training images.
        images: folder or `.zip` file that the file names of both are relative to.
        test_images: folder or `.zip` file of the test images, if different.
        test_share: share of the images that is held out if there is no test file.
        keep_empty: also train on images without annotations.
        benchmark: rules of the metrics; None uses LVIS's for federated annotations, otherwise COCO's.
    """

    train: Path = Path("annotations/train.json")
    test: Path | None = Path("annotations/val.json")
    images: Path = Path("images")
    test_images: Path | None = None
    test_share: float = 0.2
    keep_empty: bool = True
    benchmark: Benchmark | None = None

    def load(self, *, with_masks: bool) -> DetectionSets:
        """Read the annotations of both sets; without a test file a share of the training images is held out."""
        for field in ("train", "test", "images", "test_images"):
            path: Path | None = getattr(self, field)
            if path is None:
                continue
            check_source(path, f"data.{field}")
            if field in ("train", "test") and path.is_dir():
                raise ValueError(
                    f"{path}: a folder, but data.{field} is an annotation file (.json), which `equigrad data convert` "
                    f"makes of folders of YOLO and VOC; images are --set data.images={path}"
                )
        train = indexed_coco(self.train)
        if self.test is None:
            train, test = held_out(train, self.test_share)
        else:
            test = indexed_coco(self.test).in_categories_of(train)
        if with_masks and test.segmentations is None:  # training would end before anybody noticed
            raise ValueError(f"{test.source}: expected a segmentation in its annotations, to evaluate masks")
        train_set = DetectionDataset(
            train, self.images, with_masks=with_masks, dense_masks=False, keep_empty=self.keep_empty
        )
        test_set = DetectionDataset(test, self.test_images or self.images)
        if self.test_images is None:
            _check_not_the_same_images(train_set, test_set)

        def evaluator(folder: Path, iou_types: IouTypes, images: Images | None = None) -> DetectionEvaluator:
            tested = test_set.data if images is None else test_set.data.subset(images)
            counts = train.category_counts
            return DetectionEvaluator(tested, folder, iou_types=iou_types, protocol=self.benchmark, train_counts=counts)

        return DetectionSets(train_set, test_set, evaluator)


def _check_not_the_same_images(train: DetectionDataset, test: DetectionDataset) -> None:
    """ValueError if images that lie in different folders are one and the same where folders are dropped.

    `train/1.jpg` and `test/1.jpg` are both `1.jpg` in the folder `images/train`.
    """
    if train.paths is train.data.file_names and test.paths is test.data.file_names:
        return
    trained = dict(zip(train.paths, train.data.file_names, strict=True))
    for path, name in zip(test.paths, test.data.file_names, strict=True):
        if trained.get(path, name) != name:
            raise ValueError(
                f"{train.store.name(path)}: is {trained[path]} of {train.data.source} and {name} of "
                f"{test.data.source}; name the folder that has both with --set data.images=…, or that of the test "
                "images with --set data.test_images=…"
            )


@dataclass(frozen=True)
class OpenImages:
    """OpenImages Challenge 2019: 500 categories with a hierarchy; boxes only.

    Args:
        root: folder of the CSV files and the hierarchy; docs/openimages.md names them.
        images: folder with the folders `train` and `validation` of images.
        sizes: folder with image sizes in `train.csv` and `validation.csv`; None reads them from the images.
        expand_boxes: train on every box once more for each ancestor of its category; the released code does not.
        expand_detections: also count detections for the ancestors of their category.
    """

    root: Path = Path("openimages")
    images: Path = Path("openimages/images")
    sizes: Path | None = None
    expand_boxes: bool = False
    expand_detections: bool = True

    def load(self, *, with_masks: bool) -> DetectionSets:
        """Read both sets; the groups of categories follow from the boxes as published, without ancestors."""
        if with_masks:
            raise ValueError("OpenImages is read without masks: choose a detector of boxes")
        for field, folder in (("root", self.root), ("images", self.images)):
            if not folder.exists():
                raise FileNotFoundError(f"{folder}: no such folder; name yours with --set data.{field}=…")
        published, test = self._read("train"), self._read("validation")
        train = (published.with_ancestors() if self.expand_boxes else published).detection

        def evaluator(folder: Path, iou_types: IouTypes, images: Images | None = None) -> OpenImagesEvaluator:
            tested = test if images is None else test.subset(images)
            counts = published.detection.instance_counts
            return OpenImagesEvaluator(tested, counts, expand_detections=self.expand_detections)

        train_set = DetectionDataset(train, self.images / "train", keep_empty=False)
        return DetectionSets(train_set, DetectionDataset(test.detection, self.images / "validation"), evaluator)

    def _read(self, split: Literal["train", "validation"]) -> OpenImagesData:
        sizes = None if self.sizes is None else self.sizes / f"{split}.csv"
        return indexed_openimages(self.root, split, images=self.images / split, sizes=sizes)


@dataclass(frozen=True)
class GlyphObjects:
    """Scenes of glyphs in files of LVIS's format, with boxes, masks and federated fields; drawn at the first use.

    Args:
        root: folder for the files.
        num_classes: number of categories, C.
        max_count: how often the most frequent category is drawn in training.
        profile: counts of the others: those of LVIS v1, cut at `max_count`, so that the shares of rare, common and
            frequent categories are LVIS's; or falling exponentially.
        imbalance_factor: for the exponential profile, the most frequent category over the rarest.
        test_count: how often each category is drawn in the test set.
        image_size: side of a scene in pixels.
        difficulty: how hard the drawings are, 0 to 1.
        seed: random seed of the scenes.
    """

    root: Path = Path("data/glyph_objects")
    num_classes: int = 120
    max_count: int = 1000
    profile: Literal["lvis", "exponential"] = "lvis"
    imbalance_factor: float = 300.0
    test_count: int = 10
    image_size: int = 96
    difficulty: float = 0.2
    seed: int = 0

    @property
    def is_drawn(self) -> bool:
        """Whether the files are there."""
        return (self.root / MANIFEST).is_file()

    def load(self, *, with_masks: bool) -> DetectionSets:
        """Read both sets, after writing them if need be."""
        data = GlyphData(self._counts(), eval_count=self.test_count, seed=self.seed)
        style = replace(SCENE, image_size=self.image_size).at_difficulty(self.difficulty)
        write_detection(self.root, data, style=style)
        annotations = self.root / "annotations"
        files = CocoFiles(annotations / "lvis_train.json", annotations / "lvis_val.json", self.root / "images")
        return files.load(with_masks=with_masks)

    def _counts(self) -> Counts:
        if self.profile == "exponential":
            return exponential_profile(self.num_classes, self.max_count, self.imbalance_factor)
        lvis = pick_categories(load_frequencies("lvis_v1").image_counts, self.num_classes)
        return np.minimum(lvis, self.max_count)


DetectionSource = CocoFiles | OpenImages | GlyphObjects
"""A training and a test set: `load()` reads both, or raises ValueError or OSError with one line on what is missing."""
