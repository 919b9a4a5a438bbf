"""Worker processes for tests that start fast: they are forked from one server that has imported torch already."""

import multiprocessing
import os
import random
import socket
import sys
from contextlib import suppress
from multiprocessing import context, forkserver
from pathlib import Path
from unittest.mock import patch

# Imported once by the server; a spawned process would import all of it again, which takes seconds.
PRELOADED = [
    *("numpy", "PIL.Image", "pytest", "hypothesis", "torch", "torch.distributed", "torchvision.transforms.v2"),
    *("lightning.fabric", "torch.utils.tensorboard", "pycocotools.cocoeval"),
    *("equigrad.data.detection.dataset", "equigrad.data.glyphs.files", "equigrad.engine", "equigrad.sampling"),
    *("equigrad.evaluation.classification", "equigrad.evaluation.segmentation"),
    *("equigrad.evaluation.detection.evaluator", "equigrad.evaluation.detection.openimages"),
    *("equigrad.analysis.report", "equigrad.recipes.tiny"),  # all that a training ends up with
    "tests.chosen_glyphs",
]
ROOT = Path(__file__).parents[1]


def quick_context() -> context.ForkServerContext:
    """A multiprocessing context: like with `spawn`, all that a process gets is pickled."""
    forkserver.set_forkserver_preload(PRELOADED)
    # The server has no other way to find `tests`: it ignores the `sys.path` that it is given.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with patch.dict(os.environ, PYTHONPATH=path):
        forkserver.ensure_running()
    return multiprocessing.get_context("forkserver")


PATIENCE = 600.0
"""Seconds after which a process hangs: many times what any takes, because a busy machine is no failure."""


def free_port():
    """A port for processes that start soon; not of those that the system gives to whoever asks meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def run_ranks(function, *arguments, world_size=2, timeout=PATIENCE):
    """Run `function(rank, *arguments)` in a process for each rank; fails unless all succeed within the seconds."""
    processes = [quick_context().Process(target=function, args=(rank, *arguments)) for rank in range(world_size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout)
        process.kill()  # if it still waits for a rank that failed, pytest would wait for it
    assert [process.exitcode for process in processes] == [0] * world_size


def run_as_torchrun(function, *arguments, output, world_size=2):
    """Run `function(*arguments)`, which returns its exit code, in a process for each rank, in torchrun's environment.

    What the processes print is returned and goes to the file `output`.
    """
    from torch.distributed import TCPStore

    # As torchrun does it, so that no rank needs a port that may be taken by then.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_RUN_ID": "test",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    try:
        run_ranks(_torchrun_rank, environment, output, function, arguments, world_size=world_size)
    except AssertionError as error:
        raise AssertionError(output.read_text()) from error
    return output.read_text()


def run_program(function, *arguments, output):
    """Exit code of `function(*arguments)`, which returns it, in a process whose output goes to a file."""
    process = quick_context().Process(target=_program, args=(output, function, arguments))
    process.start()
    process.join(PATIENCE)
    return process.exitcode


def _program(output, function, arguments):
    behave_as_a_program(output)
    sys.exit(function(*arguments))


def _torchrun_rank(rank, environment, output, function, arguments):
    os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
    behave_as_a_program(output)
    sys.exit(function(*arguments))


def behave_as_a_program(output):
    """Append what this process and its children print to a file, and fork children as an ordinary process does."""
    multiprocessing.set_start_method("fork", force=True)  # the default, which a child of a fork server does not have
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    do_not_wait_for_the_disk()


def do_not_wait_for_the_disk():
    """Switch `os.fsync` off: no test cuts the power, and a small training would wait longer than it computes."""
    os.fsync = lambda descriptor: None
