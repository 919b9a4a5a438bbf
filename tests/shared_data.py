"""The data sets that live beside the repository, for tests marked `shared_data`."""

import os
from pathlib import Path

import pytest


def shared_folder(*parts: str) -> Path:
    """A folder of the shared data, or a skip that says what is missing."""
    root = Path(os.environ.get("EQUIGRAD_SHARED", Path(__file__).parents[2] / "shared"))
    folder = root.joinpath("data", *parts)
    if not folder.exists():
        pytest.skip(f"no {folder}; EQUIGRAD_SHARED names the folder of the shared data")
    return folder
