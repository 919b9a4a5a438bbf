"""Whether an equalization loss is likely to help, by a rule of two numbers, and which one to try for a task.

The rule was fitted to the data sets in `MEASURED` alone. It says where to look first; `equigrad compare` measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from equigrad.analysis.doctor.tail import Tail

Answer = Literal["likely", "unlikely"]

MIN_IMBALANCE = 5.0
"""Below it the data count as balanced. Chosen, not fitted: nothing below an imbalance factor of 15 was measured."""


@dataclass(frozen=True)
class Measured:
    """A data set on which losses were compared: docs/compare.md and docs/evidence.

    Args:
        name: of the data set.
        imbalance: its imbalance factor.
        tested_few: of the categories that are trained and tested, the share with fewer than 20 training images.
        gained: whether an equalization loss with its default settings raised the category mean (accuracy, AP or mIoU)
            by more than the spread.
    """

    name: str
    imbalance: float
    tested_few: float
    gained: bool


MEASURED = (
    Measured("Caltech-101-LT", 100, 50 / 101, True),
    Measured("Omniglot characters", 15, 136 / 136, True),
    Measured("PlantDoc leaves", 407, 0 / 27, False),
    Measured("glyph images", 100, 16 / 40, True),
    Measured("glyph objects", 1000, 46 / 120, True),
    Measured("CamVid", 8033, 5 / 29, False),
)


def smallest_tail(measured: Sequence[Measured] = MEASURED) -> float:
    """The share of few-shot categories from which a gain is likely: midway between sets with and without a gain."""
    smallest = min(case.tested_few for case in measured if case.gained)
    return (smallest + max(case.tested_few for case in measured if not case.gained)) / 2


def answer(imbalance: float, tested_few: float, measured: Sequence[Measured] = MEASURED) -> Answer:
    """Whether a gain in category mean is likely."""
    is_long = imbalance >= MIN_IMBALANCE and tested_few >= smallest_tail(measured)
    return "likely" if is_long else "unlikely"


_ADVICE = {
    "classification": (
        "softmax_eql with its defaults, or balanced_softmax, which needs the counts",
        "ce,balanced_softmax,softmax_eql",
    ),
    "semantic_segmentation": ("softmax_eql with its defaults; it costs frequent categories pixels", "ce,softmax_eql"),
    "detection": ("sigmoid_eql with its defaults in two stages, efl in one (--detector atss)", "bce,sigmoid_eql"),
    "instance_segmentation": ("sigmoid_eql with its defaults, in Mask R-CNN", "bce,sigmoid_eql"),
}


def outlook(tail: Tail, task: str, data: str | None) -> list[str]:
    """Whether to try an equalization loss, which one, and the command that measures it.

    Args:
        tail: of the training set.
        task: of `equigrad compare`.
        data: how the command line names the data, with the options that belong to it; None if that is unknown.
    """
    if task not in _ADVICE:
        measure = "" if data is None else f"; measure it: equigrad compare {data}"
        return [f"whether an equalization loss helps where an image has several categories follows no rule{measure}"]
    share = f"{100 * tail.tested_few:.0f} % of the tested categories have fewer than 20 training images"
    because = f"imbalance factor {tail.imbalance:,.4g}, and {share}"
    loss, methods = _ADVICE[task]
    if answer(tail.imbalance, tail.tested_few) == "unlikely":
        plain = methods.partition(",")[0]
        return [f"an equalization loss is not likely to raise the category mean: {because}", f"stay with {plain}"]
    command = "" if data is None else f"; measure it: equigrad compare {data} --methods {methods}"
    return [
        f"an equalization loss is likely to raise the category mean, without a promise: {because}",
        f"try {loss}{command}",
    ]
