"""Which detections a benchmark judges: limits on their number, and LVIS's federated annotation.

LVIS is a federation of small data sets, one a category: an image is only annotated for some categories, those it shows
(`annotated`), those verified to be absent (`negative`) and those of which not every instance is marked
(`not_exhaustive`). A detection of any other category is neither right nor wrong and is left out.
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
        is_federated: only categories that were looked for in an image count there.
        per_image: most detections an image, whatever their category; None for any number.
        per_image_and_category: most detections of a category in an image; None for any number.
        recall_limits: numbers of detections of a category in an image at which recall is reported too.
        fixed_limit: AP-fixed's most detections of a category over the whole set (Dave et al., 2021).
    """

    is_federated: bool
    per_image: int | None = None
    per_image_and_category: int | None = None
    recall_limits: tuple[int, ...] = ()
    fixed_limit: int = 10_000

    @property
    def limit(self) -> int | None:
        """The number that average recall is called after."""
        return self.per_image or self.per_image_and_category


LVIS = Rules(is_federated=True, per_image=300)
COCO = Rules(is_federated=False, per_image_and_category=100, recall_limits=(1, 10))


@dataclass(frozen=True, eq=False)
class Selection:
    """Detections that are judged, (D,) each."""

    indices: Ints  # into the predictions
    is_standard: Flags  # within the limits of the benchmark: AP
    is_fixed: Flags  # within the limit of AP-fixed
    is_excused: Flags  # no mistake even if nothing matches


def select(predictions: Predictions, annotations: Annotations, rules: Rules) -> Selection:
    """Apply limits to all detections first, as the official evaluator does, then leave out what cannot be judged."""
    labels, scores = predictions.labels, predictions.scores
    num_categories = len(annotations.categories.names)
    cells = predictions.images.astype(np.int64) * num_categories + labels
    is_standard = np.ones(len(scores), np.bool_)
    if rules.per_image is not None:
        is_standard = within_limit(predictions.images, scores, rules.per_image)
    if rules.per_image_and_category is not None:
        is_standard &= within_limit(cells, scores, rules.per_image_and_category)
    is_fixed = within_limit(labels, scores, rules.fixed_limit)
    judged = is_standard | is_fixed
    if rules.is_federated:
        # The official evaluator loses objects and detections without area on the way.
        judged &= predictions.areas > 0
        judged &= _looked_for(annotations)[cells]
    indices = np.flatnonzero(judged)
    is_excused = np.zeros(len(indices), np.bool_)
    if rules.is_federated and annotations.not_exhaustive is not None:
        is_excused = np.isin(cells[indices], _cells(annotations.not_exhaustive, num_categories))
    return Selection(indices, is_standard[indices], is_fixed[indices], is_excused)


def within_limit(groups: NDArray[np.integer[Any]], scores: Floats, limit: int) -> Flags:
    """Whether a detection is among the `limit` best of its group; of equal scores the first comes first, (N,)."""
    chosen = np.ones(len(groups), np.bool_)
    kinds, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    crowded = np.flatnonzero((counts > limit)[inverse])
    order = crowded[np.lexsort((-scores[crowded], inverse[crowded]))]
    first = np.searchsorted(inverse[order], np.arange(len(kinds)))
    chosen[order] = np.arange(len(order)) - first[inverse[order]] < limit
    return chosen


def annotation_images(annotations: Annotations) -> Ints:
    """Index of the image of each annotation, (M,)."""
    return np.repeat(np.arange(len(annotations.image_ids)), np.diff(annotations.offsets))


def _looked_for(annotations: Annotations) -> Flags:
    """Whether a category was looked for in an image, (I * C,): annotated or negative there."""
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
