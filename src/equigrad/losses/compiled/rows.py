"""Passes over float32 logits on a CPU, by `rows.c` where the installation could compile it.

They do what `softmax_pass.add_cross_entropy` and `sigmoid_pass.add_negatives` do otherwise, in a third of the time.
"""

import ctypes
import hashlib
import os
from ctypes import c_double, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from equigrad.losses.blockwise import BlockwisePass
from equigrad.losses.kernel_choice import is_transformed

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = SOURCE.with_name("_rows.so")

ELEMENTS_OF_A_THREAD = 2**15
"""Logits below which another thread costs more than it saves; torch's own operations have the same number."""


class Pass(ctypes.Structure):
    """What `rows.c` calls so."""

    _fields_ = [
        *((name, c_void_p) for name in ("logits", "labels", "margin", "weight", "label_margin", "focus")),
        *((name, c_void_p) for name in ("gradient", "positive", "negative", "prepared")),
        *((name, c_int64) for name in ("stride", "num_rows", "num_classes", "num_positions")),
        *((name, c_double) for name in ("divisor", "loss")),
        ("scale", c_float),
        *((name, c_int32) for name in ("is_constant", "num_threads")),
    ]


def _load() -> ctypes.CDLL | None:
    """The library, or None where there is none that was compiled from this source."""
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        loaded.equigrad_source.restype = ctypes.c_char_p
        if loaded.equigrad_source().decode() != hashlib.sha256(SOURCE.read_bytes()).hexdigest():
            return None
        for function in (loaded.equigrad_cross_entropy, loaded.equigrad_negatives):
            function.argtypes = [ctypes.POINTER(Pass)]
    except (OSError, AttributeError):
        return None
    return loaded


library = _load()

_process_of_threads: int | None = None
"""Who started the threads of OpenMP. A process that is forked from it has none, and would wait for them for ever."""

# The functions below run in every step and call no others: a loss is at most three frames deep.


def fits(run: BlockwisePass, *, maps: bool = False) -> bool:
    """Whether a compiled pass can do this one: rows of float32, or `maps`, in the memory of a CPU."""
    flat = run.flat
    return (
        library is not None
        and run.kernels == "blocks"
        and run.is_cpu
        and flat.dtype == torch.float32
        and (flat.stride(1) == 1 if run.is_rows else maps and flat.is_contiguous())
        and type(flat) is Tensor  # a subclass may have no memory
        and not flat.is_neg()  # its memory has the other sign
        and not is_transformed()
    )


def add(
    run: BlockwisePass,
    what: Literal["cross_entropy", "negatives"],
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    label_margin: Tensor | None = None,
    focus: Tensor | None = None,
    is_constant: bool = False,
) -> None:
    """Add samples with class indices, or the entries that they do not label, and store the gradient.

    Vectors are float64, one number for each category.

    Args:
        run: which `fits`.
        what: the whole cross-entropy, or the negatives of a binary cross-entropy.
        labels: (N,) or (N, M), checked.
        weight: w_j of a sample by its label ("cross_entropy"); r_j of the entries of a category ("negatives").
        label_margin: of "cross_entropy", as in `functional`.
        focus: of "negatives".
        is_constant: whether the factor of the focus is not differentiated.
    """
    global _process_of_threads
    assert library is not None
    flat, gradient, negative = run.flat, run.gradient, torch.zeros_like(run.positive)
    num_samples, num_classes, *positions = flat.shape
    num_threads = min(torch.get_num_threads(), flat.numel() // ELEMENTS_OF_A_THREAD)
    if num_threads > 1:
        if _process_of_threads is None:
            _process_of_threads = os.getpid()
        elif _process_of_threads != os.getpid():
            num_threads = 1
    # Copies, where they are any, must live as long as the call.
    labels, margin = labels.contiguous(), None if run.margin is None else run.margin.contiguous()
    weight = None if weight is None else weight.contiguous()
    label_margin = None if label_margin is None else label_margin.contiguous()
    focus = None if focus is None else focus.contiguous()
    arguments = Pass(
        flat.data_ptr(),
        labels.data_ptr(),
        None if margin is None else margin.data_ptr(),
        None if weight is None else weight.data_ptr(),
        None if label_margin is None else label_margin.data_ptr(),
        None if focus is None else focus.data_ptr(),
        None if gradient is None else gradient.data_ptr(),
        run.positive.data_ptr(),
        negative.data_ptr(),
        None,
        flat.stride(0),
        num_samples,
        num_classes,
        positions[0] if positions else -1,
        run.stored_divisor,
        0.0,
        run.scale,
        is_constant,
        max(1, num_threads),
    )
    failed = getattr(library, f"equigrad_{what}")(arguments)
    if failed:
        raise MemoryError(f"not enough memory for the sums of {num_classes} categories in {num_threads} threads")
    run.loss += arguments.loss
    run.negative = negative
