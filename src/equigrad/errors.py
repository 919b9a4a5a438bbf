"""The error a user is meant to read."""


class EngineError(ValueError):
    """Training cannot start or go on; the message is one clear line, to be shown without a traceback."""


def one_line(error: BaseException) -> str:
    """An error's text without line breaks."""
    return " ".join(str(error).split())
