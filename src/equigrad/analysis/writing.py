"""Results that are complete or not there."""

import os
from pathlib import Path


def write_atomically(file: Path, content: bytes) -> None:
    """Write a temporary file beside `file` that takes its name once everything has reached the disk."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
