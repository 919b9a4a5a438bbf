"""What looks wrong in a data set, for training on its tail and for measuring that."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.doctor.tail import Tail
from equigrad.data.frequency import Counts

_LABEL_WORDS = ("labels out of range", "unknown categories", "have values like")


class Fault(NamedTuple):
    """What the checks of `equigrad data check` found to make training wrong."""

    kind: str
    num_cases: int
    first: str


class Commands(NamedTuple):
    """Commands that help with faults of a data set."""

    check: str  # lists all faults
    hold_out: str  # trains with a part of the training set as test set


def data_findings(
    tail: Tail | None, names: Sequence[str], faults: Sequence[Fault], commands: Commands
) -> list[Finding]:
    """Faults of the files, then those that only the counts show.

    Args:
        tail: None if the files are too wrong to count.
        names: names of the categories.
        faults: faults found in the files.
        commands: for the remedies.
    """
    found = [_fault(fault, commands.check) for fault in faults]
    if tail is None:
        return found
    counted = (_single(tail, names), _never_seen(tail, names), _not_tested(tail, names, commands.hold_out))
    return [*found, *(finding for finding in counted if finding is not None)]


def _fault(fault: Fault, command: str) -> Finding:
    is_label = any(word in text for word in _LABEL_WORDS for text in (fault.kind, fault.first))
    return Finding(
        "error",
        "labels_out_of_range" if is_label else "data_fault",
        fault.kind,
        f"{fault.num_cases:,}, the first is {fault.first}",
        f"correct the labels or the names of the categories; {command}" if is_label else command,
    )


def _single(tail: Tail, names: Sequence[str]) -> Finding | None:
    if tail.num_seen != 1:
        return None
    only = int(np.flatnonzero(tail.images)[0])
    return Finding(
        "error",
        "single_category",
        "a single category, so there is nothing to distinguish",
        f"{names[only]} has all {tail.images[only]:,} images",
        "name the folder whose folders are the categories, or add a category",
    )


def _never_seen(tail: Tail, names: Sequence[str]) -> Finding | None:
    absent = np.flatnonzero(tail.images == 0)
    if not len(absent):
        return None
    return Finding(
        "warning",
        "never_seen",
        f"{len(absent):,} of {len(names):,} categories have no training sample",
        _listed(absent, names),
        "leave them out of the names, or add samples: no loss can learn them",
    )


def _not_tested(tail: Tail, names: Sequence[str], hold_out: str) -> Finding | None:
    trained = tail.images > 0
    lacking = np.flatnonzero(trained & (tail.tested == 0))
    if not len(lacking):
        return None
    few = trained & (tail.images < 20)
    is_blind = few.any() and not (few & (tail.tested > 0)).any()
    text = f"the test set lacks {len(lacking):,} of {np.count_nonzero(trained):,} trained categories"
    rarest_first = lacking[np.argsort(tail.images[lacking], kind="stable")]
    return Finding(
        "warning" if few[lacking].any() else "note",
        "not_tested",
        f"{text}: none of the few-shot ones is in it" if is_blind else text,
        f"{_listed(rarest_first, names)}; training images of the rarest: {tail.images[rarest_first[0]]:,}",
        f"test on a held-out part: {hold_out}",
    )


def _listed(labels: Counts, names: Sequence[str]) -> str:
    return ", ".join(names[label] for label in labels[:3].tolist()) + (" …" if len(labels) > 3 else "")
