"""The error a user is meant to read."""

from equigrad.terminal import printable


class EngineError(ValueError):
    """Training cannot start or go on; the message is one clear line, to be shown without a traceback."""


def one_line(error: BaseException) -> str:
    """An error's text without line breaks, and without anything else that a terminal would obey."""
    return printable(" ".join(str(error).split()))
