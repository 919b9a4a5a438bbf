"""`torchrun --max-restarts`: a rank is killed, all are started again, and the run goes on by itself."""

import json
import os
import signal
import time

import pytest

from engine.torchruns import kill_torchrun, ranks_of, start_torchrun
from quick_processes import PATIENCE


@pytest.mark.slow
def test_a_killed_rank_is_started_again_and_the_run_goes_on_from_its_last_checkpoint(tmp_path):
    folder, output = tmp_path / "run", tmp_path / "output.txt"
    job = start_torchrun(folder, output, num_nodes=1, num_ranks=2, rdzv_endpoint="localhost:0")
    try:
        deadline = time.monotonic() + PATIENCE
        while not list((folder / "checkpoints").glob("step_*.pt")):
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)
        victim = ranks_of(job)[-1]
        os.kill(victim, signal.SIGKILL)
        job.join(PATIENCE)
        assert job.exitcode == 0, output.read_text()
    finally:
        if job.exitcode is None:
            kill_torchrun(job)
    shown = output.read_text()
    assert not [line for line in shown.splitlines() if "Traceback" in line and "torch/distributed" not in line]
    told = [line for line in shown.splitlines() if line.startswith("equigrad: ")]
    assert [line.partition(" on ")[0] for line in told] == [f"equigrad: rank 1 (process {victim}"]
    assert shown.count("resuming at step ") == 1
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(12, 97, 12))
    assert [start["step"] > 0 for start in json.loads((folder / "recipe.json").read_text())["starts"]] == [False, True]
