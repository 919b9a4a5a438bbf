"""Paths that a file of data names: they stay below the folder of images.

A list or an annotation file may come from anybody, and cannot make a file outside of the folder be read by its path.
Symbolic links are the user's own as a rule, such as those of a subset, and are followed unless the user forbids it.
"""

import os
import re
from pathlib import Path

FOLLOW_LINKS = "EQUIGRAD_FOLLOW_LINKS"  # set to 0 for a folder that was unpacked from an untrusted archive
_FOREIGN = re.compile("^[A-Za-z]:|[\0-\x1f\ud800-\udfff]")  # a drive letter, or what no name of an image has


def inside(path: str, field: str) -> str:
    """Return the path; ValueError if it would leave the folder of images, on any operating system."""
    parts = re.split(r"[/\\]", path)
    if parts[0] == "" or ".." in parts or _FOREIGN.search(path):
        raise ValueError(f"{field}: expected a path inside the folder of images, got {path!r:.100}")
    return path


def linked_inside(file: Path, *folders: Path) -> Path:
    """Return the file; OSError if a symbolic link leads it out of all of these folders and the user forbids that."""
    if os.environ.get(FOLLOW_LINKS) != "0":
        return file
    real = os.path.realpath(file)
    is_inside = any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders)
    if not is_inside:
        raise OSError(f"{file}: leaves {folders[0]}, and {FOLLOW_LINKS}=0 forbids that")
    return file
