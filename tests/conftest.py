import gc
import json
import os
import signal
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

import offline_hosts as offline_hosts
from quick_processes import do_not_wait_for_the_disk

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("equigrad", deadline=None)
hypothesis.settings.load_profile("equigrad")

# Probing instruction sets and starting compile workers imports torch in new processes; the kernels run only once here.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["EQUIGRAD_CACHE"] = ""  # no test writes into the home folder
do_not_wait_for_the_disk()

gc.disable()  # until all tests are collected: hardly anything that is imported is garbage

GOLDEN = Path(__file__).parent / "golden"


def pytest_collection_modifyitems(items):
    """Slow tests come first: the workers then share tests of milliseconds at the end, and finish together."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish():
    """The modules and the ten thousand tests stay; no collection of garbage goes through them again."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    gc.unfreeze()  # libraries complain about what is left when Python ends


@pytest.fixture(autouse=True)
def _reproducible():
    torch.manual_seed(0)


@pytest.fixture
def golden():
    """Reads a file of reference numbers."""

    def read(case: str) -> dict[str, Any]:
        return json.loads((GOLDEN / f"{case}.json").read_text())

    return read
