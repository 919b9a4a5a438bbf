import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("equigrad", deadline=None)
hypothesis.settings.load_profile("equigrad")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _reproducible():
    torch.manual_seed(0)


@pytest.fixture
def golden():
    """Reads a file of reference numbers."""

    def read(case: str) -> dict[str, Any]:
        return json.loads((GOLDEN / f"{case}.json").read_text())

    return read
