"""A process whose Triton kernels run on CPU tensors; tests hand it functions and get their results."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor


def interpreting_process() -> ProcessPoolExecutor:
    # Triton reads the switch once, when it is imported: the process must be new, and not forked from one that has it.
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_interpret)


def _interpret() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    torch.set_num_threads(1)


def run_pass(function, *arguments, **options):
    """The result of a pass of `equigrad.losses.kernels`, computed where this is called."""
    return function(*arguments, **options).run()
