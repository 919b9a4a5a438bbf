"""Splitting the text of COCO-style annotation files into records, without decoding the records.

Error messages are one line: file, record, field, and what was expected.
"""

import codecs
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

from equigrad.record_ids import EXPECTED

# Python's json writes NaN and Infinity, which JSON does not allow. They are replaced by a string of the same length,
# so that positions in the file stay valid; its character is one that JSON allows and names do not contain.
_NOT_FINITE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:NaN|Infinity)', re.DOTALL)
_STAND_IN = "\x7f"
_NUMBERS = {1: float("nan"), 6: float("inf"), 7: float("-inf")}  # by length of the text


class _Sections(msgspec.Struct):
    images: list[msgspec.Raw]
    categories: list[msgspec.Raw]
    annotations: list[msgspec.Raw] = []  # files of test images have none


@dataclass(frozen=True, eq=False)
class CocoText:
    """An annotation file whose three lists are split into records that are not decoded yet."""

    file: Path
    buffer: mmap.mmap | bytes
    sections: _Sections
    stamp: tuple[int, int]  # size and modification time of the file

    def spans(self, records: Sequence[msgspec.Raw]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """First byte and length in bytes of the records of one list, (N,) each."""
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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if not _stops_at_not_finite(text, error) and text[:3] != codecs.BOM_UTF8:
            raise ValueError(_refusal(file, error)) from None
    # Windows tools begin files with a mark, which JSON does not allow either.
    patched = _NOT_FINITE.sub(_stand_in, re.sub(b"^" + codecs.BOM_UTF8, b"   ", bytes(text)))
    try:
        return CocoText(file, patched, msgspec.json.decode(patched, type=_Sections), stamp)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_refusal(file, error)) from None


def decoded(record: msgspec.Raw) -> Any:
    """Decode a record, NaN and Infinity included; ValueError if it is nested too deeply."""
    text = bytes(record)
    try:
        content = json.loads(text)
        return _restored(content) if _STAND_IN.encode() in text else content
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("its text is not in UTF-8: save the file in that encoding") from None


def fault(file: Path, kind: str, index: int, record: msgspec.Raw, error: Exception) -> str:
    """The error message for a record that could not be decoded; `kind` is image, annotation or category."""
    message = _plain_message(error)
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


def _plain_message(error: Exception) -> str:
    """msgspec's message with the field first, as in "bbox: expected array of length 4"."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text, _, path = str(error).replace("`", "").partition(" - at $")
    text = (text[:1].lower() + text[1:]).replace("int | float | str", EXPECTED).replace(" | null", "")
    return f"{path.removeprefix('.')}: {text}" if path else text.removeprefix("jSON is ")


def _refusal(file: Path, error: Exception) -> str:
    message = _plain_message(error)
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
    """Put NaN and infinities back in place of the strings that stand for them."""
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
