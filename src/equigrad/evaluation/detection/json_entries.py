"""Iterating over the entries of a JSON list: a file of gigabytes needs a few megabytes of memory."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 22  # characters read at a time
LONGEST = 1 << 26  # characters of an entry, so that a broken entry does not make the rest of a huge file be read

_OPENING = re.compile(r"\s*\[\s*")
_AFTER_ENTRY = re.compile(r"\s*([,\]])\s*")
_decode = json.JSONDecoder().raw_decode


def json_entries(file: Path) -> Iterator[Any]:
    """The entries of a file with one JSON list; ValueError names the file and the first broken entry."""
    try:
        with file.open(encoding="utf-8-sig") as stream:
            yield from _entries(file, stream.read)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: expected JSON in UTF-8, got other bytes ({error.reason})") from None


def _entries(file: Path, read: Callable[[int], str]) -> Iterator[Any]:
    text, index = read(CHUNK), 0
    opening = _OPENING.match(text)
    if opening is None:
        raise ValueError(f"{file}: expected a JSON list of detections")
    position = opening.end()
    is_done = text.startswith("]", position)
    position += is_done
    while not is_done:
        try:
            entry, position, is_done = _next(text, position)
        except (ValueError, RecursionError) as error:
            # The entry may only be cut off at the end of the chunk: read more.
            more = read(CHUNK)
            if not more or len(text) - position > LONGEST:
                raise ValueError(f"{file}: entry {index}: broken or cut-off JSON ({_problem(error)})") from None
            text, position = (text[position:] + more).lstrip(), 0
            continue
        yield entry
        index += 1
    if (text[position:] + read(CHUNK)).strip():
        raise ValueError(f"{file}: unexpected text after the list")


def _next(text: str, position: int) -> tuple[Any, int, bool]:
    """The entry at a position, the position of the next one, and whether this was the last."""
    entry, end = _decode(text, position)
    after = _AFTER_ENTRY.match(text, end)
    if after is None:
        raise ValueError("expected , or ] after it")
    return entry, after.end(), after[1] == "]"


def _problem(error: Exception) -> str:
    return str(error).partition(": ")[0] if isinstance(error, ValueError) else "nested too deeply"
