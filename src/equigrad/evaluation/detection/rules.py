"""Which detections a benchmark evaluates: limits on their number, and LVIS's federated annotation.

LVIS is a federation of small data sets, one for each category. An image is annotated only for some categories: those
with annotations, those verified to be absent (`negative`), and those of which not every instance is annotated
(`not_exhaustive`). A detection of any other category is neither right nor wrong, so it is left out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Annotations, Flags, Floats, ImageLists, Ints
from equigrad.evaluation.detection.predictions import Predictions


@dataclass(frozen=True)
class Rules:
    """How a benchmark computes AP.

    Args:
        is_federated: whether an image counts only for the categories that it was annotated for.
        per_image: largest number of detections in an image, of all categories; None is unlimited.
        per_image_and_category: largest number of detections of a category in an image; None is unlimited.
        recall_limits: further limits for a category in an image at which recall is reported.
        fixed_limit: largest number of detections of a category in the whole set, for AP-fixed (Dave et al., 2021).
    """

    is_federated: bool
    per_image: int | None = None
    per_image_and_category: int | None = None
    recall_limits: tuple[int, ...] = ()
    fixed_limit: int = 10_000

    @property
    def limit(self) -> int | None:
        """The number in the name of average recall, such as 300 in AR@300."""
        return self.per_image or self.per_image_and_category


LVIS = Rules(is_federated=True, per_image=300)
COCO = Rules(is_federated=False, per_image_and_category=100, recall_limits=(1, 10))


@dataclass(frozen=True, eq=False)
class Selection:
    """The detections that are evaluated, (D,) each."""

    indices: Ints  # into the predictions
    is_standard: Flags  # within the benchmark's limits, for AP
    is_fixed: Flags  # within the limit of AP-fixed
    is_excused: Flags  # not a mistake if unmatched: the category is not fully annotated


def select(predictions: Predictions, annotations: Annotations, rules: Rules) -> Selection:
    """Apply the limits to all detections, as the official evaluator does, then leave out those that cannot count."""
    labels, scores = predictions.labels, predictions.scores
    num_categories = len(annotations.categories.names)
    cells = predictions.images.astype(np.int64) * num_categories + labels
    is_standard = np.ones(len(scores), np.bool_)
    if rules.per_image is not None:
        is_standard = within_limit(predictions.images, scores, rules.per_image)
    if rules.per_image_and_category is not None:
        # Most images have too few detections for any category to exceed its limit.
        many = np.flatnonzero((np.bincount(predictions.images) > rules.per_image_and_category)[predictions.images])
        kinds = np.unique(cells[many], return_inverse=True)[1]
        is_standard[many] &= within_limit(kinds, scores[many], rules.per_image_and_category)
    is_fixed = within_limit(labels, scores, rules.fixed_limit)
    is_selected = is_standard | is_fixed
    if rules.is_federated:
        # The official evaluator leaves out annotations and detections without area.
        is_selected &= predictions.areas > 0
        is_selected &= _is_annotated_for(annotations)[cells]
    indices = np.flatnonzero(is_selected)
    is_excused = np.zeros(len(indices), np.bool_)
    if rules.is_federated and annotations.not_exhaustive is not None:
        is_excused = np.isin(cells[indices], _cells(annotations.not_exhaustive, num_categories))
    return Selection(indices, is_standard[indices], is_fixed[indices], is_excused)


def within_limit(groups: NDArray[np.integer[Any]], scores: Floats, limit: int) -> Flags:
    """Whether a detection is among the `limit` best of its group, (N,); of equal scores the first one wins.

    Groups are numbered from 0: their counts are kept for all numbers up to the largest.
    """
    chosen, counts = np.ones(len(groups), np.bool_), np.bincount(groups)
    is_crowded = counts > limit
    if not is_crowded.any():
        return chosen
    crowded = np.flatnonzero(is_crowded[groups])
    # Numbers of 16 bits are sorted several times as fast.
    order = np.argsort(groups[crowded].astype(np.min_scalar_type(len(counts))), kind="stable")
    for members in np.split(crowded[order], np.cumsum(counts[is_crowded])[:-1]):
        own = scores[members]
        last = np.partition(own, -limit)[-limit]  # the lowest score within the limit
        chosen[members[own < last]] = False
        chosen[members[own == last][limit - np.count_nonzero(own > last) :]] = False
    return chosen


def annotation_images(annotations: Annotations) -> Ints:
    """Index of the image of each annotation, (M,)."""
    return np.repeat(np.arange(len(annotations.image_ids)), np.diff(annotations.offsets))


def _is_annotated_for(annotations: Annotations) -> Flags:
    """Whether an image was annotated for a category, (I * C,): it has annotations or lists it as negative."""
    num_categories = len(annotations.categories.names)
    table = np.zeros(len(annotations.image_ids) * num_categories, np.bool_)
    counted = np.asarray(annotations.areas) > 0
    table[(annotation_images(annotations) * num_categories + annotations.labels)[counted]] = True
    if annotations.negative is not None:
        table[_cells(annotations.negative, num_categories)] = True
    return table


def _cells(lists: ImageLists, num_categories: int) -> Ints:
    images = np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))
    cells: Ints = images * num_categories + lists.values
    return cells
