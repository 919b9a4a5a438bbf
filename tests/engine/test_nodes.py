"""Two nodes, as two torchruns at two addresses of this machine: one is killed and started again."""

import shlex
import time
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from engine.torchruns import kill_torchrun, start_torchrun, words
from engine.toy import assert_identical
from equigrad.cli import _parser, main
from equigrad.engine import load_checkpoint
from equigrad.recipes.catalogue import load_recipe
from quick_processes import PATIENCE, free_port, run_as_torchrun

LAST = Path("checkpoints", "step_00000096.pt")


def start_node(address, port, folder, output):
    """A torchrun with one rank; the settings and the variables are those of docs/cluster.md."""
    return start_torchrun(
        *(folder, output),
        num_nodes=2,
        num_ranks=1,
        rdzv_endpoint=f"127.0.0.1:{port}",
        # Both addresses are this machine, so that each would take itself for the host of the endpoint. A node counts
        # as dead after three seconds without a sign, not fifteen.
        rdzv_configs={"is_host": address == "127.0.0.1", "keep_alive_interval": 1},
        local_addr=address,
    )


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
        kill_torchrun(second)
        second = start_node("127.0.0.2", port, folder, outputs[1])
        first.join(PATIENCE)
        second.join(PATIENCE)
        assert (first.exitcode, second.exitcode) == (0, 0), [output.read_text() for output in outputs]
    finally:
        for node in (first, second):
            if node.exitcode is None:
                kill_torchrun(node)
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
