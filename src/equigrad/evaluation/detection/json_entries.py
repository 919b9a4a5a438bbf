"""The entries of a JSON list, one at a time, so that a file of gigabytes needs the memory of a few megabytes."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 22  # characters read at a time
LONGEST = 1 << 26  # characters of an entry: what is broken near the start of a huge file must not make it all be read

_OPENING = re.compile(r"\s*\[\s*")
_AFTER_ENTRY = re.compile(r"\s*([,\]])\s*")
_decode = json.JSONDecoder().raw_decode


def json_entries(file: Path) -> Iterator[Any]:
    """Entries of a file that holds one list; raises ValueError naming the file and the first entry that is broken."""
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
    place = opening.end()
    is_done = text.startswith("]", place)
    place += is_done
    while not is_done:
        try:
            entry, place, is_done = _next(text, place)
        except (ValueError, RecursionError) as error:
            # It may only be cut off: more of the file tells.
            more = read(CHUNK)
            if not more or len(text) - place > LONGEST:
                raise ValueError(f"{file}: entry {index}: broken or cut-off JSON ({_problem(error)})") from None
            text, place = (text[place:] + more).lstrip(), 0
            continue
        yield entry
        index += 1
    if (text[place:] + read(CHUNK)).strip():
        raise ValueError(f"{file}: unexpected text after the list")


def _next(text: str, place: int) -> tuple[Any, int, bool]:
    """The entry that starts at a place, where the next one starts, and whether it was the last."""
    entry, end = _decode(text, place)
    after = _AFTER_ENTRY.match(text, end)
    if after is None:
        raise ValueError("expected , or ] after it")
    return entry, after.end(), after[1] == "]"


def _problem(error: Exception) -> str:
    return str(error).partition(": ")[0] if isinstance(error, ValueError) else "nested too deeply"
