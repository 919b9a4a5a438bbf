"""Loops that need no adapter."""

import pytest
import torch
from tests.integrations import classifier_runs as runs

from equigrad.integrations import check

pytestmark = pytest.mark.integrations


@pytest.fixture(autouse=True)
def _leave_the_process_group():
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("package", "make"),
    [
        ("lightning", runs.lightning_run),
        ("accelerate", runs.accelerate_run),
        ("torch", runs.ddp_run),
        ("torch", runs.fsdp2_run),
        ("skorch", runs.skorch_run),
    ],
)
def test_no_check_fails(package, make):
    pytest.importorskip(package, reason=f"needs {package}")
    report = check(make)
    assert report.passed, report
    assert sum(result.state == "pass" for result in report.results) >= 4, report
