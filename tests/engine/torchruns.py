"""torchrun in a process that has imported torch already, as `quick_processes` starts them."""

import os
import signal
import sys
from pathlib import Path

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from equigrad.cli import main
from quick_processes import behave_as_a_program, quick_context

SETTINGS = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("training.schedule.epochs=24", "training.batch_size=8", "training.log_every=12", "training.checkpoint_every=12"),
    "training.num_workers=0",
]
"""96 steps of a training that needs no files."""


def words(folder):
    return ["train", "tiny:softmax_eql", "--folder", str(folder), *(f"--set={setting}" for setting in SETTINGS)]


def start_torchrun(folder, output, *, num_nodes, num_ranks, **config):
    """A torchrun that trains in the folder, with so many ranks of its own; `config` is that of `LaunchConfig`."""
    process = quick_context().Process(
        target=_torchrun, args=(folder, output, (num_nodes, num_nodes, num_ranks), config)
    )
    process.start()
    return process


def ranks_of(torchrun):
    """Their process ids."""
    return [int(child) for child in Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text().split()]


def kill_torchrun(torchrun):
    """As a power cut does it: torchrun and its ranks at once."""
    for process in (torchrun.pid, *ranks_of(torchrun)):
        os.kill(process, signal.SIGKILL)
    torchrun.join()


def _torchrun(folder, output, numbers, config):
    behave_as_a_program(output)
    os.environ.update(GLOO_SOCKET_IFNAME="lo", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    launch = LaunchConfig(*numbers, run_id="job", rdzv_backend="c10d", max_restarts=3, start_method="fork", **config)
    elastic_launch(launch, _rank)(folder)


def _rank(folder):
    sys.exit(main(words(folder)))
