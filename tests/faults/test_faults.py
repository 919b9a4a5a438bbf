"""Forty faults at trainings, with other seeds than the hundred of docs/faults.md."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_faults_at_random_moments_lose_nothing(seed):
    command = [sys.executable, "-m", "tests.faults", "--faults", "20", "--seed", str(seed)]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"20 faults, seed {seed}" in done.stdout
