import json
from pathlib import Path
from typing import Any

import pytest
import torch

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
