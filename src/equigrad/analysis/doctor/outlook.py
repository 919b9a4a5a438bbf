"""Whether it is worth trying an equalization loss, by a rule of two numbers, and which one to try for a task.

The rule rests on the training sets of docs/evidence/outlook.csv. It says where to look first; `equigrad compare`
measures.
"""

from typing import Literal, NamedTuple

from equigrad.analysis.doctor.tail import Tail

Answer = Literal["likely", "unlikely"]

MIN_IMBALANCE = 12.0
"""Between the training sets with a factor of at most 10, one of which gained, and those with 15 or more."""

MIN_FEW = 0.22
"""Of the tested categories, those with fewer than 20 training images: between 17 % without a gain and 27 % with one."""


class Record(NamedTuple):
    """How often an answer was right on the training sets that were measured."""

    num_right: int
    num_given: int


RECORD: dict[Answer, Record] = {"likely": Record(10, 16), "unlikely": Record(25, 26)}
FRESH: dict[Answer, Record] = {"likely": Record(0, 6), "unlikely": Record(4, 4)}
"""The part of it on training sets that were drawn after the rule was fitted."""


def answer(
    imbalance: float, tested_few: float, min_imbalance: float = MIN_IMBALANCE, min_few: float = MIN_FEW
) -> Answer:
    """Whether a gain in category mean is likely."""
    return "likely" if imbalance >= min_imbalance and tested_few >= min_few else "unlikely"


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
    given = answer(tail.imbalance, tail.tested_few)
    right = f"this answer was right on {_share(RECORD[given])} measured training sets"
    if given == "unlikely":
        plain = methods.partition(",")[0]
        return [
            f"an equalization loss is not likely to raise the category mean: {because} ({right})",
            f"stay with {plain}",
        ]
    command = f"equigrad compare {'DATA' if data is None else data} --methods {methods}"
    return [
        f"an equalization loss may raise the category mean: {because} ({right}, "
        f"and on {_share(FRESH[given])} that the rule was not fitted to)",
        f"try {loss}; only a measurement tells whether it helps: {command}",
    ]


def _share(record: Record) -> str:
    return f"{record.num_right} of {record.num_given}"
