"""`torchrun --max-restarts`: a rank is killed, all are started again, and the run goes on by itself."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quick_processes import PATIENCE

SETTINGS = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("training.schedule.epochs=24", "training.batch_size=8", "training.log_every=12", "training.checkpoint_every=12"),
    "training.num_workers=0",
]


def children_of(process):
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.slow
def test_a_killed_rank_is_started_again_and_the_run_goes_on_from_its_last_checkpoint(tmp_path):
    folder, output = tmp_path / "run", tmp_path / "output.txt"
    words = ["train", "tiny:softmax_eql", "--folder", str(folder)]
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with (
        output.open("w") as stream,
        subprocess.Popen(
            [*torchrun, "--max-restarts", "1", "-m", "equigrad", *words],
            stdout=stream,
            stderr=stream,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ) as job,
    ):
        deadline = time.monotonic() + PATIENCE
        while not list((folder / "checkpoints").glob("step_*.pt")):
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)
        victim = children_of(job.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        assert job.wait(PATIENCE) == 0, output.read_text()
    shown = output.read_text()
    assert "Traceback" not in shown
    told = [line for line in shown.splitlines() if line.startswith("equigrad: ")]
    assert [line.partition(" on ")[0] for line in told] == [f"equigrad: rank 1 (process {victim}"]
    assert shown.count("resuming at step ") == 1
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(12, 97, 12))
    assert [start["step"] > 0 for start in json.loads((folder / "recipe.json").read_text())["starts"]] == [False, True]
