"""Totals of the published data sets, to tell whether a copy is complete.

found = Found("boxes", "lvis_v1_train.json", names, num_images=100_169, num_annotations=1_270_141)
published_line(found)     # "not LVIS v1 train as published: 100,169 images instead of 100,170"
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from equigrad.data.frequency import Counts, load_frequencies

Kind = Literal["boxes", "labels", "label maps"]


@dataclass(frozen=True, eq=False)
class Found:
    """What was counted in a data set."""

    kind: Kind  # what images are annotated with
    file_name: str  # of the list or annotation file, without folder
    names: Sequence[str]  # of the C categories
    num_images: int
    num_annotations: int | None = None  # of boxes
    image_counts: Counts | None = None  # (C,) images of each category


@dataclass(frozen=True)
class Published:
    """A split as its authors published it."""

    name: str
    kind: Kind
    num_categories: int
    num_images: int
    num_annotations: int | None = None
    frequencies: str = ""  # `load_frequencies` has the categories, and for a training set their counts
    ends: tuple[str, str] | None = None  # the first and last category, where no table has all
    file_name: str = ""  # of a list without names of categories
    count_range: tuple[int, int] | None = None  # fewest and most images of a category
    note: str = ""


# The paper and its supplement, the authors' pages, and the tables in `frequencies`.
PUBLISHED_SETS = (
    Published("LVIS v1 train", "boxes", 1203, 100_170, 1_270_141, frequencies="lvis_v1"),
    Published("LVIS v1 val", "boxes", 1203, 19_809, 244_707, frequencies="lvis_v1"),
    Published("COCO 2017 train", "boxes", 80, 118_287, 860_001, ends=("person", "toothbrush")),
    Published("COCO 2017 val", "boxes", 80, 5_000, 36_781, ends=("person", "toothbrush")),
    Published(
        "OpenImages Challenge 2019 train",
        "boxes",
        500,
        1_743_042,
        12_195_144,
        file_name="challenge-2019-train-detection-bbox.csv",
        note="images without a row in the files are not counted here",
    ),
    Published(
        "OpenImages Challenge 2019 validation",
        "boxes",
        500,
        41_620,
        file_name="challenge-2019-validation-detection-bbox.csv",
        note="images without a row in the files are not counted here",
    ),
    Published("ImageNet-LT train", "labels", 1000, 115_846, file_name="ImageNet_LT_train.txt", count_range=(5, 1280)),
    Published("ImageNet-LT val", "labels", 1000, 20_000, file_name="ImageNet_LT_val.txt", count_range=(20, 20)),
    Published("ImageNet-LT test", "labels", 1000, 50_000, file_name="ImageNet_LT_test.txt", count_range=(50, 50)),
    Published("Places-LT train", "labels", 365, 62_500, file_name="Places_LT_train.txt", count_range=(5, 4980)),
    Published("Places-LT test", "labels", 365, 36_500, file_name="Places_LT_test.txt", count_range=(100, 100)),
    Published(
        "iNaturalist 2018 train", "labels", 8142, 437_513, file_name="iNaturalist18_train.txt", count_range=(2, 1000)
    ),
    Published("iNaturalist 2018 val", "labels", 8142, 24_426, file_name="iNaturalist18_val.txt", count_range=(3, 3)),
    Published(
        "ADE20K training",
        "label maps",
        150,
        20_210,
        frequencies="ade20k",
        note="the paper counts 20,196",
    ),
    Published("ADE20K validation", "label maps", 150, 2_000, frequencies="ade20k"),
)


def published_line(found: Found) -> str | None:
    """Whether data is a published split, or what differs from the nearest one; None if it is no published set at all.

    A split is recognised by its categories, or by the name of its list. "As published" means that all totals agree.
    """
    near = [known for known in PUBLISHED_SETS if _is_recognised(known, found)]
    if not near:
        return None
    nearest = min(near, key=lambda known: abs(np.log(known.num_images / max(found.num_images, 1))))
    note = f" ({nearest.note})" if nearest.note else ""
    if differences := _differences(nearest, found):
        return f"not {nearest.name} as published: {', '.join(differences)}{note}"
    totals = [f"{nearest.num_images:,} images", f"{nearest.num_categories:,} categories"]
    if nearest.num_annotations is not None:
        totals.append(f"{nearest.num_annotations:,} annotations")
    return f"this is {nearest.name} as published: {', '.join(totals)}{note}"


def _is_recognised(known: Published, found: Found) -> bool:
    if known.kind != found.kind or known.num_categories != len(found.names):
        return False
    if known.file_name:
        return known.file_name == found.file_name
    if known.ends is not None:
        return known.ends == (found.names[0], found.names[-1])
    # Copies of LVIS differ in the spelling of a few names.
    same = sum(name == other for name, other in zip(found.names, _table_names(known.frequencies), strict=True))
    return same >= 0.9 * len(found.names)


@cache
def _table_names(frequencies: str) -> tuple[str, ...]:
    return load_frequencies(frequencies).names


def _differences(known: Published, found: Found) -> list[str]:
    """What differs, in words."""
    totals = [("images", found.num_images, known.num_images)]
    if known.num_annotations is not None:
        totals.append(("annotations", found.num_annotations or 0, known.num_annotations))
    if known.count_range is not None and found.image_counts is not None:
        fewest, most = known.count_range
        totals.append(("images of the rarest category", int(found.image_counts.min()), fewest))
        totals.append(("images of the most frequent category", int(found.image_counts.max()), most))
    return [f"{number:,} {what} instead of {right:,}" for what, number, right in totals if number != right]
