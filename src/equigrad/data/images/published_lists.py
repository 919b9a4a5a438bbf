"""Readers of ImageNet-LT, Places-LT and iNaturalist 2018 in their published layouts."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from equigrad.data.images.lists import ImageList
from equigrad.data.images.readers import read_image_list

Benchmark = Literal["imagenet_lt", "places_lt", "inaturalist18"]
Split = Literal["train", "val", "test"]


@dataclass(frozen=True)
class PublishedLists:
    """The list files of a benchmark, and which files must be where."""

    num_classes: int
    files: dict[str, str]
    instruction: str  # for error messages


# The lists of the first two are those of "Large-Scale Long-Tailed Recognition in an Open World" (CVPR 2019), the third
# those of "Decoupling Representation and Classifier" (ICLR 2020), which tests on the validation images.
PUBLISHED = {
    "imagenet_lt": PublishedLists(
        1000,
        {"train": "ImageNet_LT_train.txt", "val": "ImageNet_LT_val.txt", "test": "ImageNet_LT_test.txt"},
        "place ImageNet's train/<class>/ and val/<class>/ folders and the ImageNet_LT_*.txt lists in one folder",
    ),
    "places_lt": PublishedLists(
        365,
        {"train": "Places_LT_train.txt", "val": "Places_LT_val.txt", "test": "Places_LT_test.txt"},
        "place the folders of Places365 (256 x 256) that the lists name and the Places_LT_*.txt lists in one folder",
    ),
    "inaturalist18": PublishedLists(
        8142,
        {"train": "iNaturalist18_train.txt", "val": "iNaturalist18_val.txt", "test": "iNaturalist18_val.txt"},
        "place iNaturalist's train_val2018/ folder and the iNaturalist18_*.txt lists in one folder",
    ),
}


def read_published(
    benchmark: Benchmark,
    root: str | os.PathLike[str],
    split: Split,
    *,
    lists: str | os.PathLike[str] | None = None,
) -> ImageList:
    """Read a split of a published benchmark.

    Args:
        benchmark: "imagenet_lt", "places_lt" or "inaturalist18".
        root: what the paths in the lists are relative to.
        split: "train", "val" or "test".
        lists: the folder with the list files; None is `root`.
    """
    if benchmark not in PUBLISHED:
        raise ValueError(f"benchmark must be one of {sorted(PUBLISHED)}, got {benchmark!r}")
    published = PUBLISHED[benchmark]
    if split not in published.files:
        raise ValueError(f"split must be one of {sorted(published.files)}, got {split!r}")
    file = Path(root if lists is None else lists, published.files[split])
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such list; {published.instruction}")
    images = read_image_list(file, root, num_classes=published.num_classes)
    if images.store.size(images.paths[0]) is None:
        raise FileNotFoundError(f"{images.store.name(images.paths[0])}: no such image; {published.instruction}")
    return images
