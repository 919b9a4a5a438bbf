"""How far the outputs of an exported file are from those of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SCORE = 1e-3
BOX_PIXELS = 0.1
OTHER_PIXELS = 0.02
OTHER_OBJECTS = 0.05
OTHERS = "share of objects without a partner"


@dataclass(frozen=True)
class Difference:
    """Largest differences by name, each with what is tolerated.

    Args:
        found: by name, in words that stand before a number.
        tolerated: the same names.
    """

    found: Mapping[str, float]
    tolerated: Mapping[str, float]

    @property
    def is_tolerated(self) -> bool:
        """Whether nothing is above its tolerance; a difference that is not a number is."""
        return not self.exceeded

    @property
    def exceeded(self) -> set[str]:
        """Names of the differences above their tolerance."""
        return {name for name, limit in self.tolerated.items() if not self.found[name] <= limit}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.1e}" for name, value in self.found.items())


def largest(differences: Sequence[Difference]) -> Difference:
    """The largest of each kind over several images."""
    first = differences[0]
    found = {name: _maximum([each.found[name] for each in differences]) for name in first.found}
    return Difference(found, first.tolerated)


def score_difference(expected: Tensor, got: Tensor) -> Difference:
    """Of scores of the same shape."""
    return Difference({"score": _furthest(expected, got)}, {"score": SCORE})


def label_map_difference(labels: Tensor, scores: Tensor, got_labels: Tensor, got_scores: Tensor) -> Difference:
    """Of label maps (N, H, W) and the scores there; two categories may be equally good at a pixel."""
    others = float((labels != got_labels).double().mean())
    found = {"score": _furthest(scores, got_scores), "share of pixels with another label": others}
    return Difference(found, {"score": SCORE, "share of pixels with another label": OTHER_PIXELS})


def detection_difference(expected: Mapping[str, Tensor], got: Mapping[str, Tensor]) -> Difference:
    """Of the objects of an image: each is compared with its nearest of the same category.

    Two objects with nearly the same score may change places, and where one suppresses the other, one of them may be
    missing: a share of objects without a partner is tolerated.

    Args:
        expected: `boxes` (n, 4), `scores` (n,), `labels` (n,) and perhaps `masks` (n, M, M).
        got: the same of the file, (m, …).
    """
    names = {"score": SCORE, "box in pixels": BOX_PIXELS} | ({"mask": SCORE} if "masks" in expected else {})
    num_objects = max(len(expected["scores"]), len(got["scores"]))
    rows, columns = _partners(expected, got)
    _, back = _partners(got, expected)
    num_without = max(len(expected["scores"]) - len(rows), len(got["scores"]) - len(back))
    fields = dict(zip(names, ("scores", "boxes", "masks"), strict=False))
    found = {name: _furthest(expected[field][rows], got[field][columns]) for name, field in fields.items()}
    return Difference(found | {OTHERS: num_without / max(num_objects, 1)}, names | {OTHERS: OTHER_OBJECTS})


def _partners(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Objects of `a` that have one in `b` close by, and which."""
    if not len(a["scores"]) or not len(b["scores"]):
        none = torch.zeros(0, dtype=torch.int64)
        return none, none
    distances = torch.cdist(a["boxes"].double(), b["boxes"].double(), p=float("inf")) / BOX_PIXELS
    distances = distances.maximum((a["scores"][:, None] - b["scores"]).abs().double() / SCORE)
    distances = distances.masked_fill(a["labels"][:, None] != b["labels"], torch.inf)
    nearest = distances.min(1)
    rows = (nearest.values <= 1).nonzero()[:, 0]
    return rows, nearest.indices[rows]


def _furthest(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max()) if a.numel() else 0.0


def _maximum(values: Sequence[float]) -> float:
    """The largest; nan if one of them is."""
    return float(torch.tensor(values, dtype=torch.float64).max())
