"""The text of COCO-style annotation files: split into records without a Python object for what is in them.

Errors are one line that says which file, which record, which field, and what was expected there.
"""

import json
import mmap
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

# Python's json writes these, though JSON has no such numbers. A text of as many bytes takes their place, so that
# records stay where they are; the character is one that JSON allows and no name contains.
_NOT_FINITE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:NaN|Infinity)', re.DOTALL)
_STAND_IN = "\x7f"
_NUMBERS = {1: float("nan"), 6: float("inf"), 7: float("-inf")}  # by length of the text


class _Sections(msgspec.Struct):
    images: list[msgspec.Raw]
    categories: list[msgspec.Raw]
    annotations: list[msgspec.Raw] = []  # files of test images have none


@dataclass(frozen=True, eq=False)
class CocoText:
    """An annotation file, its three lists split into records that are not decoded yet."""

    file: Path
    buffer: mmap.mmap | bytes
    sections: _Sections
    stamp: tuple[int, int]  # size and time of the file

    def spans(self, records: Sequence[msgspec.Raw]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the objects of one list begin in the file, and their lengths in bytes, (N,) each."""
        lengths = np.fromiter((len(memoryview(record)) for record in records), np.int64, len(records))
        starts = np.zeros(len(records), np.int64)
        end = _address(records[0]) - _address(self.buffer) if len(records) else 0
        for index, length in enumerate(lengths.tolist()):
            # Between two objects there is only a comma and white space.
            start = self.buffer.find(b"{", end)
            starts[index] = start
            end = start + length
        return starts, lengths.astype(np.int32)


def open_coco(file: str | os.PathLike[str]) -> CocoText:
    """Split a file into records; ValueError if it is not an object with lists `images` and `categories`."""
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such annotation file")
    with file.open("rb") as stream:
        status = os.fstat(stream.fileno())
        if status.st_size == 0:
            raise ValueError(f"{file}: the annotation file is empty")
        text = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    stamp = (status.st_size, status.st_mtime_ns)
    try:
        return CocoText(file, text, msgspec.json.decode(text, type=_Sections), stamp)
    except (msgspec.MsgspecError, RecursionError) as error:
        if not _stops_at_not_finite(text, error):
            raise ValueError(_refusal(file, error)) from None
    patched = _NOT_FINITE.sub(_stand_in, bytes(text))
    try:
        return CocoText(file, patched, msgspec.json.decode(patched, type=_Sections), stamp)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(_refusal(file, error)) from None


def decoded(record: msgspec.Raw) -> Any:
    """A record as Python objects, with what Python's json takes for numbers; ValueError if it is not readable."""
    text = bytes(record)
    try:
        content = json.loads(text)
        return _restored(content) if _STAND_IN.encode() in text else content
    except RecursionError:
        raise ValueError("nested too deeply") from None


def fault(file: Path, kind: str, index: int, record: msgspec.Raw, error: Exception) -> str:
    """One line about a record that could not be decoded: `kind` is image, annotation or category."""
    message = plain_message(error)
    if _STAND_IN.encode() in bytes(record):
        message = message.replace("got str", "got a number that is not finite")
    try:
        content = decoded(record)
    except ValueError as unreadable:
        return f"{file}: {kind} number {index + 1}: not readable ({unreadable})"
    found = content.get("id") if isinstance(content, dict) else None
    name = f"{kind} {found!r:.40}" if found is not None else f"{kind} number {index + 1}"
    field = message.partition(":")[0].partition("[")[0]
    if isinstance(content, dict) and field in content:
        message += f", and {field} is {content[field]!r:.80}"
    return f"{file}: {name}: {message}"


def plain_message(error: Exception) -> str:
    """msgspec's message, with the field first: "bbox: expected array of length 4"."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text, _, path = str(error).replace("`", "").partition(" - at $")
    text = text[:1].lower() + text[1:]
    return f"{path.removeprefix('.')}: {text}" if path else text.removeprefix("jSON is ")


def _refusal(file: Path, error: Exception) -> str:
    message = plain_message(error)
    if isinstance(error, msgspec.ValidationError):
        return f"{file}: expected an object with the lists images, annotations and categories: {message}"
    if isinstance(error, RecursionError):
        return f"{file}: {message} for an annotation file"
    if "truncated" in message:
        return f"{file}: not a complete JSON file, it ends at byte {file.stat().st_size:,} in the middle of a value"
    return f"{file}: not a JSON file, {message}"


def _stops_at_not_finite(text: mmap.mmap, error: Exception) -> bool:
    place = re.search(r"\(byte (\d+)\)", str(error))
    at = int(place[1]) if place else len(text)
    found = text[max(at - 1, 0) : at + 9].lstrip(b" \t\r\n,:[{")
    return re.match(rb"-?(?:NaN|Infinity)", found) is not None


def _stand_in(match: re.Match[bytes]) -> bytes:
    token = match[0]
    return token if token.startswith(b'"') else b'"' + _STAND_IN.encode() * (len(token) - 2) + b'"'


def _restored(value: Any) -> Any:
    """Numbers for their stand-ins."""
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if isinstance(value, dict):
        return {name: _restored(item) for name, item in value.items()}
    if isinstance(value, str) and value and not value.strip(_STAND_IN):
        return _NUMBERS.get(len(value), value)
    return value


def _address(buffer: Any) -> int:
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address
