"""Passes over float32 logits on a CPU, by `rows.c` where the installation could compile it.

They do what `softmax_pass.add_cross_entropy` and `sigmoid_pass.add_negatives` do otherwise, in a third of the time.
"""

import ctypes
import hashlib
from ctypes import c_double, c_float, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigrad.losses.blockwise import BlockwisePass
from equigrad.losses.kernel_choice import is_transformed

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = SOURCE.with_name("_rows.so")

ELEMENTS_OF_A_THREAD = 2**15
"""Logits below which another thread costs more than it saves; torch's own operations have the same number."""


def _load() -> ctypes.CDLL | None:
    """The library, or None where there is none that was compiled from this source."""
    try:
        loaded = ctypes.CDLL(str(LIBRARY))
        loaded.equigrad_source.restype = ctypes.c_char_p
        if loaded.equigrad_source().decode() != hashlib.sha256(SOURCE.read_bytes()).hexdigest():
            return None
        matrix: list[Any] = [c_void_p, c_int64, c_void_p, c_void_p, c_float]
        outputs: list[Any] = [c_void_p, ctypes.POINTER(c_double), c_int64, c_int64, c_int]
        loaded.equigrad_cross_entropy.argtypes = [*matrix, c_void_p, c_void_p, c_double, c_void_p, c_void_p, *outputs]
        negatives: list[Any] = [c_void_p, c_int, c_void_p, c_double, c_void_p, *outputs]
        loaded.equigrad_negatives.argtypes = [*matrix, *negatives]
        loaded.equigrad_map_negatives.argtypes = [c_void_p, *matrix[2:], *negatives[:-1], c_int64, c_int]
    except (OSError, AttributeError):
        return None
    return loaded


library = _load()

# The functions below run in every step and call no others: a loss is at most three frames deep.


def fits(run: BlockwisePass, *, maps: bool = False) -> bool:
    """Whether a compiled pass can do this one: rows of float32, or `maps`, in the memory of a CPU."""
    flat = run.flat
    return (
        library is not None
        and run.kernels == "blocks"
        and run.is_cpu
        and (run.is_rows or (maps and flat.is_contiguous()))
        and type(flat) is Tensor  # a subclass may have no memory
        and not is_transformed()
        and flat.dtype == torch.float32
        and (not run.is_rows or flat.stride(1) == 1)
        and (run.gradient is None or run.workspace is not None)
    )


def add_cross_entropy(
    run: BlockwisePass, labels: Tensor, weight: Tensor | None = None, label_margin: Tensor | None = None
) -> None:
    """Add samples with class indices; `weight` and `label_margin`, (C,) each, are those of a sample's category."""
    assert library is not None
    assert run.margin is not None
    num_rows, num_classes = run.flat.shape
    num_threads = min(torch.get_num_threads(), num_rows, num_rows * num_classes // ELEMENTS_OF_A_THREAD)
    loss, negative = c_double(), torch.empty_like(run.positive)
    # Copies, where they are any, must live as long as the call.
    labels, margin = labels.contiguous(), run.margin.contiguous()
    weight = None if weight is None else weight.contiguous()
    label_margin = None if label_margin is None else label_margin.contiguous()
    failed = library.equigrad_cross_entropy(
        run.flat.data_ptr(),
        run.flat.stride(0),
        labels.data_ptr(),
        margin.data_ptr(),
        run.scale,
        None if label_margin is None else label_margin.data_ptr(),
        None if weight is None else weight.data_ptr(),
        run.stored_divisor,
        None if run.gradient is None else run.gradient.data_ptr(),
        run.positive.data_ptr(),
        negative.data_ptr(),
        loss,
        num_rows,
        num_classes,
        max(1, num_threads),
    )
    if failed:
        raise MemoryError(f"not enough memory for the sums of {num_classes} categories in {num_threads} threads")
    run.loss += loss.value
    run.negative = negative


def add_negatives(
    run: BlockwisePass, labels: Tensor, focus: Tensor | None, weight: Tensor, *, constant_weight: bool
) -> None:
    """Add the entries that are not labelled, each with the weight r_j of its category, and store their gradient."""
    assert library is not None
    num_samples, num_classes, *_ = run.flat.shape
    num_threads = min(torch.get_num_threads(), run.flat.numel() // ELEMENTS_OF_A_THREAD)
    loss, negative = c_double(), torch.empty_like(run.positive)
    # Copies, where they are any, must live as long as the call.
    labels, own_weight = labels.contiguous(), weight.to(torch.float32).contiguous()
    margin = None if run.margin is None else run.margin.contiguous()
    focus = None if focus is None else focus.to(torch.float32).contiguous()
    add = library.equigrad_negatives if run.is_rows else library.equigrad_map_negatives
    failed = add(
        run.flat.data_ptr(),
        *([run.flat.stride(0)] if run.is_rows else []),
        labels.data_ptr(),
        None if margin is None else margin.data_ptr(),
        run.scale,
        None if focus is None else focus.data_ptr(),
        constant_weight,
        own_weight.data_ptr(),
        run.stored_divisor,
        None if run.gradient is None else run.gradient.data_ptr(),
        negative.data_ptr(),
        loss,
        num_samples,
        num_classes,
        *run.flat.shape[2:],
        max(1, num_threads),
    )
    if failed:
        raise MemoryError(f"not enough memory for the sums of {num_classes} categories in {num_threads} threads")
    run.loss += loss.value
    run.negative = negative.mul_(weight.flatten())
