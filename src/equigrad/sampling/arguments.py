"""Arguments of the samplers: every error says what was expected and what was given."""

import operator


def checked_threshold(threshold: float) -> float:
    """A share of the images, above 0."""
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise TypeError(f"threshold must be a number, got {type(threshold).__name__}")
    if not 0 < threshold <= 1:  # refuses nan too
        raise ValueError(f"threshold must be in (0, 1], a share of the images, got {threshold}")
    return float(threshold)


def checked_int(name: str, value: int, *, minimum: int) -> int:
    """An integer of at least `minimum`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = operator.index(value)
    if not minimum <= number < 2**63:
        raise ValueError(f"{name} must be at least {minimum} and fit 64 bits, got {number}")
    return number


def checked_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """One of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value
