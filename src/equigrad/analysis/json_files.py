"""JSON of a run folder, which is not trusted: an error names file and field in one line."""

import json
import math
from pathlib import Path
from typing import Any, TypeGuard

Json = dict[str, Any]


def read_object(file: Path) -> Json:
    """The one object in a file."""
    content = parse(file, read_bytes(file))
    if not isinstance(content, dict):
        raise ValueError(f"{file}: must hold one object, got {kind_of(content)}")
    return content


def read_bytes(file: Path) -> bytes:
    """The bytes of a file."""
    if not file.is_file():  # a pipe or a device would have no end
        raise ValueError(f"{file}: no such file; its folder is not that of a run")
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror})") from None


def parse(file: Path, text: bytes, where: str = "content") -> Any:
    """The value of a JSON text; `where` in the file it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: {where} is not JSON ({_first_line(error)})") from None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a JSON value is a finite number."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def kind_of(value: Any) -> str:
    """What an error says of a value of the wrong type."""
    return "nothing" if value is None else type(value).__name__


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
