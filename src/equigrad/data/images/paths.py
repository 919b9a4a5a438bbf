"""Paths that a file of data names: they stay below the folder of images.

A list, an annotation file or an unpacked archive may come from anybody. None of them can make a file outside of the
folder be read, neither by its path nor by a symbolic link.
"""

import os
import re
from pathlib import Path

FOLLOW_LINKS = "EQUIGRAD_FOLLOW_LINKS"  # set to 1 by users whose folder has links to their own images elsewhere
_FOREIGN = re.compile("^[A-Za-z]:|[\0-\x1f\ud800-\udfff]")  # a drive letter, or what no name of an image has


def inside(path: str, field: str) -> str:
    """Return the path; ValueError if it would leave the folder of images, on any operating system."""
    parts = re.split(r"[/\\]", path)
    if parts[0] == "" or ".." in parts or _FOREIGN.search(path):
        raise ValueError(f"{field}: expected a path inside the folder of images, got {path!r:.100}")
    return path


def linked_inside(file: Path, *folders: Path) -> Path:
    """Return the file; OSError if a symbolic link leads it out of all of these folders, unless the user allows it."""
    real = os.path.realpath(file)
    is_inside = any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders)
    if not is_inside and os.environ.get(FOLLOW_LINKS) != "1":
        raise OSError(f"{file}: leaves {folders[0]}; set {FOLLOW_LINKS}=1 to follow symbolic links of your own")
    return file
