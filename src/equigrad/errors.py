"""Errors that are shown to the user in one line."""

import os

from equigrad.terminal import printable


class EngineError(ValueError):
    """Training cannot start or go on; the message is one clear line, to be shown without a traceback."""


class UsageError(ValueError):
    """A command has a wrong word, such as an option or a setting that does not exist."""


def one_line(error: BaseException) -> str:
    """An error's text without line breaks and other control characters.

    An error of the system is `file: No such file or directory`, without its number.
    """
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{printable(os.fsdecode(error.filename))}: {reason(error)}"
    return reason(error)


def reason(error: BaseException) -> str:
    """The text of an error for a message that has named the file already."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return printable(" ".join(text.split()))
