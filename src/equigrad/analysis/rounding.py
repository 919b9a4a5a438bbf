"""How numbers are rounded: the same on pages, in figures and in the terminal."""

from collections.abc import Iterable

import numpy as np

ABSENT = "–"


def tenths(value: float) -> str:
    """With one digit. Numbers that differ in their last bits alone, as sums in another order do, give one text."""
    text = f"{round(value, 9):.1f}"
    return "0.0" if text == "-0.0" else text


def signed_tenths(value: float) -> str:
    """The same with its sign, for differences."""
    text = tenths(value).replace("-", "−")
    return text if text == "0.0" or text.startswith("−") else f"+{text}"


def percent(value: float | None) -> str:
    """A fraction in per cent; a dash if unknown."""
    return ABSENT if value is None or not np.isfinite(value) else tenths(100 * value)


def points(value: float | None, base: float | None) -> str:
    """The difference of two fractions in percentage points, with its sign; empty if one is unknown.

    Of the exact values, as everywhere: it may be 0.1 off the difference of the two percentages that are shown.
    """
    if value is None or base is None or not np.isfinite(value - base):
        return ""
    return signed_tenths(100 * (value - base))


def number(value: float) -> str:
    """A ratio; a dash if unknown."""
    return ABSENT if not np.isfinite(value) else f"{value:.2f}"


def percents(values: Iterable[float]) -> list[float | None]:
    """Fractions as numbers in per cent, rounded as `percent` does, for a script that only has to print them."""
    return [float(percent(value)) if np.isfinite(value) else None for value in values]


def changes(values: Iterable[float], bases: Iterable[float]) -> list[float | None]:
    """Differences as numbers in percentage points, rounded as `points` does."""
    texts = (points(value, base).replace("−", "-") for value, base in zip(values, bases, strict=True))
    return [float(text) if text else None for text in texts]


def significant(values: Iterable[float], digits: int) -> list[float | None]:
    """Values with few significant digits, to keep a page small; None where unknown."""
    return [_shortest(float(f"{value:.{digits}g}")) if np.isfinite(value) else None for value in values]


def _shortest(value: float) -> float:
    return int(value) if value.is_integer() else value
