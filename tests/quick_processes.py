"""Worker processes for tests that start fast: they are forked from one server that has imported torch already."""

import multiprocessing
from multiprocessing import context, forkserver

# Imported once by the server; a spawned process would import all of it again, which takes seconds.
PRELOADED = [
    *("numpy", "PIL.Image", "pytest", "hypothesis", "torch", "torch.distributed", "torchvision.transforms.v2"),
    *("pycocotools.cocoeval", "equigrad.data.detection.dataset", "equigrad.data.glyphs.files"),
    *("equigrad.evaluation.classification", "equigrad.evaluation.segmentation"),
    *("equigrad.evaluation.detection.evaluator", "equigrad.evaluation.detection.openimages"),
]


def quick_context() -> context.ForkServerContext:
    """A multiprocessing context: like with `spawn`, all that a process gets is pickled."""
    forkserver.set_forkserver_preload(PRELOADED)
    return multiprocessing.get_context("forkserver")


def run_ranks(function, *arguments, world_size=2, timeout=120):
    """Run `function(rank, *arguments)` in a process for each rank; fails unless all succeed within the seconds."""
    processes = [quick_context().Process(target=function, args=(rank, *arguments)) for rank in range(world_size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout)
    assert [process.exitcode for process in processes] == [0] * world_size
