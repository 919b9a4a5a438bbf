"""How much an equalization loss is forecast to raise the category mean, and which one to try for a task.

The forecast is fitted to the training sets of docs/evidence/outlook.csv. How its form was chosen is in
docs/evidence/outlook.md. `equigrad compare` measures.
"""

import math
from typing import NamedTuple

from equigrad.analysis.doctor.tail import Tail

POINTS_PER_TENFOLD = 1.6
"""Points gained for each factor of ten between the counts, if all tested categories have few training images."""

SPREAD = 0.5
"""Four of five gains are within this share of the forecast, apart from the noise of their measurement."""

WORTHWHILE = 1.0
"""Points. A smaller forecast is no reason to leave the plain loss."""


class Forecast(NamedTuple):
    """Percentage points of category mean that Softmax-EQL gains over CE; four of five gains are in the interval."""

    points: float
    low: float
    high: float


class Record(NamedTuple):
    """How many measured gains were in the interval of their forecast, widened by the noise of the measurement."""

    num_inside: int
    num_measured: int


NEW = Record(15, 18)
"""Of training sets that were measured after the forecast was fixed."""

_ADVICE = {
    "classification": (
        "softmax_eql with its defaults, or balanced_softmax, which needs the counts; both may cost many-shot "
        "categories",
        "ce,balanced_softmax,softmax_eql",
    ),
    "semantic_segmentation": ("softmax_eql with its defaults; it costs frequent categories pixels", "ce,softmax_eql"),
    "detection": (
        "sigmoid_eql with its defaults in a two-stage detector; it may cost frequent categories",
        "bce,sigmoid_eql",
    ),
    "instance_segmentation": (
        "sigmoid_eql with its defaults in Mask R-CNN; it may cost frequent categories",
        "bce,sigmoid_eql",
    ),
}


def forecast(imbalance: float, tested_few: float, points_per_tenfold: float = POINTS_PER_TENFOLD) -> Forecast:
    """The gain from two numbers of a `Tail`."""
    points = points_per_tenfold * math.log10(imbalance) * math.sqrt(tested_few)
    return Forecast(points, (1 - SPREAD) * points, (1 + SPREAD) * points)


def outlook(tail: Tail, task: str, data: str | None) -> list[str]:
    """What an equalization loss is expected to gain, which one to try, and the command that measures it.

    Args:
        tail: tail of the training set.
        task: task, as in `equigrad compare`.
        data: how the command line names the data, with the options that belong to it; None if that is unknown.
    """
    if task not in _ADVICE:
        measure = "" if data is None else f"; measure it: equigrad compare {data}"
        return [f"what an equalization loss gains where an image has several categories cannot be forecast{measure}"]
    expected = forecast(tail.imbalance, tail.tested_few)
    share = f"{100 * tail.tested_few:.0f} % of the tested categories have fewer than 20 training images"
    because = f"imbalance factor {tail.imbalance:,.4g}, and {share} ({_reliability(task)})"
    loss, methods = _ADVICE[task]
    if expected.points < WORTHWHILE:
        plain = methods.partition(",")[0]
        gain = f"less than a point to the category mean ({expected.points:.1f})"
        return [f"an equalization loss is forecast to add {gain}: {because}", f"stay with {plain}"]
    command = f"equigrad compare {'DATA' if data is None else data} --methods {methods}"
    gain = f"{expected.points:.1f} points to the category mean, between {expected.low:.1f} and {expected.high:.1f}"
    return [
        f"an equalization loss is forecast to add {gain}: {because}",
        f"try {loss}; this measures what it gains: {command}",
    ]


def _reliability(task: str) -> str:
    if task == "classification":
        known = f"{NEW.num_inside} of {NEW.num_measured} gains measured afterwards were in such an interval"
        return f"for a last layer on frozen features: {known}; networks trained as a whole gained 10 and 15"
    return "fitted to classifiers of images: too few detectors and segmenters were measured"
