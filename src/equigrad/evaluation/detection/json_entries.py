"""Iterating over a JSON list, entry by entry or in parts: a file of gigabytes needs a few megabytes of memory."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHUNK = 1 << 22  # characters read at a time
PART = 1 << 17  # bytes read at a time: few enough for the cache of the processor
MARGIN = 64  # bytes in which the comma before an entry is looked for
LONGEST = 1 << 26  # characters of an entry, so that a broken entry does not make the rest of a huge file be read

_OPENING = re.compile(r"\s*\[\s*")
_OPENING_BYTES = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*")
_SEPARATOR = re.compile(rb".*}\s*,\s*", re.DOTALL)
_AFTER_ENTRY = re.compile(r"\s*([,\]])\s*")
_decode = json.JSONDecoder().raw_decode


def list_parts(file: Path) -> Iterator[tuple[int, bytes]]:
    """The text of a JSON list in parts, which are lists too, each with the position of its first entry in the file.

    Nothing is checked. Parts are cut before an opening brace that follows `},`, which may be inside of an entry. A part
    that is valid JSON has whole entries, because its brackets match; for any other, `json_entries` continues there.
    """
    with file.open("rb") as stream:
        text = stream.read(PART)
        opening = _OPENING_BYTES.match(text)
        if opening is None:
            yield 0, b""
            return
        position, text = opening.end(), text[opening.end() :]
        while len(text) < LONGEST and (more := stream.read(max(PART, len(text)))):
            text += more
            if end := _last_entry(text):
                yield position, b"[" + text[: text.rindex(b",", 0, end)] + b"]"
                position, text = position + end, text[end:]
        yield position, b"[" + text


def _last_entry(text: bytes) -> int:
    """Where the last entry starts, which may be cut off; 0 if it is the first."""
    start = text.rfind(b"{")
    while start > 0 and not _SEPARATOR.fullmatch(text[max(start - MARGIN, 0) : start]):
        start = text.rfind(b"{", 0, start)
    return max(start, 0)


def json_entries(file: Path, position: int = 0, index: int = 0) -> Iterator[Any]:
    """The entries of a file with one JSON list; ValueError names the file and the first broken entry.

    Args:
        file: the file.
        position: where in the file an entry starts, to continue there; 0 is the start of the list.
        index: which entry that is.
    """
    try:
        with file.open("rb") as stream:
            stream.seek(position)
            text = io.TextIOWrapper(stream, encoding="utf-8-sig")
            yield from _entries(file, text.read, "[" if position else "", index)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: expected JSON in UTF-8, got other bytes ({error.reason})") from None


def _entries(file: Path, read: Callable[[int], str], opened: str = "", index: int = 0) -> Iterator[Any]:
    text = opened + read(CHUNK)
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
