"""The advice of a comparison in one sentence, from its intervals on this data alone."""

from collections.abc import Sequence

import numpy as np

from equigrad.analysis.compared_methods import CATEGORY_MEAN, ComparedMethods
from equigrad.analysis.compared_tables import difference_and_margin
from equigrad.analysis.paired_differences import Differences
from equigrad.analysis.rounding import tenths


def advice(compared: ComparedMethods) -> str:
    """The sentence, about the method that gains most over the first one."""
    baseline = compared.methods[0]
    if len(compared.methods) == 1:
        return f"Only {baseline} was measured: name a second method to compare it with."
    if compared.num_seeds == 1:
        return "One seed has no spread: nothing can be said about differences; use --seeds 3 or more."
    differences = compared.differences
    if np.isnan(differences.margin).all():
        return "No group has enough categories for an interval: nothing can be said about differences."
    if not (differences.is_above | differences.is_below).any():
        return f"No method differs from {baseline} by more than the spread{_largest(compared, differences)}."
    best = _best(compared, differences)
    if best is None:
        worst = _worst(compared, differences)
        return f"Stay with {baseline}: no method is above it by more than the spread, and {worst}."
    return f"{_gains(compared, differences, best)}{_rivals(compared, best)}{_losses(compared, differences, best)}."


def _best(compared: ComparedMethods, differences: Differences) -> int | None:
    """The method with the largest sure gain in category mean, else in the rarest group where any has one."""
    sure = np.where(differences.is_above, differences.estimate - differences.margin, -np.inf)
    for column in _by_interest(compared):
        if np.isfinite(sure[:, column]).any():
            return int(sure[:, column].argmax())
    return None


def _gains(compared: ComparedMethods, differences: Differences, best: int) -> str:
    columns = _by_interest(compared)
    gained = [column for column in columns if differences.is_above[best, column]]
    text = f"{compared.methods[best]} is {_amounts(compared, differences, best, gained, 'above')}"
    is_known = np.isfinite(differences.margin[best]) & ~differences.is_above[best] & ~differences.is_below[best]
    within = [compared.columns[column].where for column in columns if is_known[column]]
    return f"{text}, within the noise {_listed(within)}" if within else text


def _losses(compared: ComparedMethods, differences: Differences, best: int) -> str:
    lost = [column for column in _by_interest(compared) if differences.is_below[best, column]]
    if not lost:
        return ""
    amounts = _amounts(compared, differences, best, lost, "below")
    return f"; it is {amounts}: stay with {compared.methods[0]} if that matters more"


def _rivals(compared: ComparedMethods, best: int) -> str:
    """Methods without a clear difference from the best one in category mean."""
    from_best = compared.differences_from(best)
    others = [index for index in range(1, len(compared.methods)) if index != best]
    rivals = [compared.methods[index] for index in others if not from_best.is_below[index, CATEGORY_MEAN]]
    return f"; no clear difference from {_listed(rivals)} in category mean" if rivals else ""


def _worst(compared: ComparedMethods, differences: Differences) -> str:
    sure = np.where(differences.is_below, differences.estimate + differences.margin, np.inf)
    method, column = divmod(int(sure.argmin()), len(compared.columns))
    return f"{compared.methods[method]} is {_amounts(compared, differences, method, [column], 'below')}"


def _largest(compared: ComparedMethods, differences: Differences) -> str:
    """The largest difference in category mean, which the spread covers."""
    estimate, margin = differences.estimate[:, CATEGORY_MEAN], differences.margin[:, CATEGORY_MEAN]
    if np.isnan(margin).all():
        return ""
    method = int(np.abs(estimate).argmax())
    shown = difference_and_margin(estimate[method], margin[method])
    return f" (largest in category mean: {compared.methods[method]}, {shown} points); stay with {compared.methods[0]}"


def _amounts(
    compared: ComparedMethods, differences: Differences, method: int, columns: Sequence[int], side: str
) -> str:
    """`3.1 ± 1.2 points above ce in category mean (few 6.0 ± 2.1)`."""
    texts = {
        column: f"{tenths(abs(differences.estimate[method, column]))} ± {tenths(differences.margin[method, column])}"
        for column in columns
    }
    first, *more = columns
    text = f"{texts[first]} points {side} {compared.methods[0]} {compared.columns[first].where}"
    listed = ", ".join(f"{compared.columns[column].name} {texts[column]}" for column in more)
    return f"{text} ({listed})" if listed else text


def _by_interest(compared: ComparedMethods) -> list[int]:
    """Category mean, then groups from the rarest, then the whole test set."""
    return [CATEGORY_MEAN, *reversed(range(CATEGORY_MEAN + 1, len(compared.columns))), 0]


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
