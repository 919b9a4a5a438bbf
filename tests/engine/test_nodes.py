"""Two nodes, as two torchruns at two addresses of this machine: one is killed and started again."""

import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.run import get_args_parser

from engine.toy import assert_identical
from equigrad.cli import _parser, main
from equigrad.engine import load_checkpoint
from equigrad.recipes.catalogue import load_recipe
from quick_processes import PATIENCE, behave_as_a_program, free_port, quick_context, run_as_torchrun

SETTINGS = [
    *("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("training.schedule.epochs=24", "training.batch_size=8", "training.log_every=12", "training.checkpoint_every=12"),
    "training.num_workers=0",
]
LAST = Path("checkpoints", "step_00000096.pt")


def words(folder):
    return ["train", "tiny:softmax_eql", "--folder", str(folder), *(f"--set={setting}" for setting in SETTINGS)]


def node(address, port, folder, output):
    """A torchrun with one rank; the settings and the variables are those of docs/cluster.md."""
    behave_as_a_program(output)
    os.environ.update(GLOO_SOCKET_IFNAME="lo", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    config = LaunchConfig(
        *(2, 2, 1),  # nodes, and ranks of each
        run_id="job",
        rdzv_backend="c10d",
        rdzv_endpoint=f"127.0.0.1:{port}",
        # Both addresses are this machine, so that each would take itself for the host of the endpoint.
        rdzv_configs={"is_host": address == "127.0.0.1"},
        local_addr=address,
        max_restarts=3,
        start_method="fork",
    )
    elastic_launch(config, rank)(folder)


def rank(folder):
    sys.exit(main(words(folder)))


def start_node(*arguments):
    process = quick_context().Process(target=node, args=arguments)
    process.start()
    return process


def kill_node(node):
    """As a power cut does it: torchrun and its rank at once."""
    ranks = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    for process in (node.pid, *map(int, ranks)):
        os.kill(process, signal.SIGKILL)
    node.join()


@pytest.mark.slow
def test_a_node_that_is_killed_and_started_again_goes_on_and_ends_as_two_ranks_of_one_node(tmp_path):
    folder, outputs, port = tmp_path / "nodes", [tmp_path / "first.txt", tmp_path / "second.txt"], free_port()
    first, second = (
        start_node(address, port, folder, output)
        for address, output in zip(("127.0.0.1", "127.0.0.2"), outputs, strict=True)
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not list((folder / "checkpoints").glob("step_*.pt")):
            assert time.monotonic() < deadline, [output.read_text() for output in outputs]
            time.sleep(0.05)
        kill_node(second)
        second = start_node("127.0.0.2", port, folder, outputs[1])
        first.join(PATIENCE)
        second.join(PATIENCE)
        assert (first.exitcode, second.exitcode) == (0, 0), [output.read_text() for output in outputs]
    finally:
        for node in (first, second):
            if node.exitcode is None:
                kill_node(node)
    shown = outputs[0].read_text()
    assert "equigrad: rank 1 (process " in shown
    assert shown.count("resuming at step ") == 1
    run_as_torchrun(main, words(tmp_path / "node"), output=tmp_path / "output.txt")
    together, expected = (load_checkpoint(run / LAST) for run in (folder, tmp_path / "node"))
    for part in ("model", "optimizer", "sampler", "ranks", "log"):  # the last is a checksum of metrics.jsonl
        assert_identical(together[part], expected[part], part)


def test_the_torchruns_of_the_page_have_options_that_torchrun_and_the_command_know():
    page = Path(__file__).parents[2] / "docs" / "cluster.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith(("torchrun ", "srun torchrun "))]
    assert len(lines) == 2
    for line in lines:
        launcher = get_args_parser().parse_args(shlex.split(line.partition("torchrun ")[2]))
        assert (launcher.training_script, launcher.module, launcher.rdzv_backend) == ("equigrad", True, "c10d")
        parsed = _parser().parse_args(launcher.training_script_args)
        assert parsed.run == Path("/shared/runs/lvis1")
        load_recipe(parsed.recipe)
