"""Operators of detectors as ONNX has them: suppression, and sorting that keeps the order of equal values.

ONNX suppresses float32 boxes of several images and categories by itself, so nothing has to be moved apart.
"""

from functools import cache
from typing import Any

import torch
from onnxscript import opset18
from torch import Tensor

from equigrad.models.deployment.suppression import NOT_A_BOX, Suppress, kept_boxes

op: Any = opset18  # its types leave out what a constant is


@cache
def suppression_operator() -> Suppress:
    """`kept_boxes` as one node of an exported graph."""
    operator = torch.library.custom_op("equigrad::kept_boxes", _kept_boxes, mutates_args=())
    operator.register_fake(_like)
    return operator


def translations() -> dict[Any, Any]:
    """What nodes become in ONNX: the `custom_translation_table` of `torch.onnx.export`."""
    suppression_operator()
    return {
        torch.ops.equigrad.kept_boxes.default: _onnx_kept_boxes,
        torch.ops.aten.sort.stable: _onnx_stable_sort,
    }


def _kept_boxes(boxes: Tensor, scores: Tensor, labels: Tensor, num_labels: int, threshold: float) -> Tensor:
    return kept_boxes(boxes, scores, labels, num_labels, threshold)


def _like(boxes: Tensor, scores: Tensor, labels: Tensor, num_labels: int, threshold: float) -> Tensor:
    return torch.empty_like(scores, dtype=torch.bool)


def _onnx_kept_boxes(boxes: Any, scores: Any, labels: Any, num_labels: int, threshold: float) -> Any:
    categories = op.Constant(value_ints=list(range(num_labels)))
    is_category = op.Equal(op.Unsqueeze(labels, [1]), op.Unsqueeze(categories, [0, 2]))  # (N, C, n)
    by_category = op.Where(is_category, op.Unsqueeze(scores, [1]), op.Constant(value_float=NOT_A_BOX))
    count = op.Unsqueeze(op.Squeeze(op.Shape(scores, start=1, end=2)), [0])
    selected = op.NonMaxSuppression(
        *(boxes, by_category, count),
        op.Constant(value_floats=[threshold]),
        op.Constant(value_floats=[NOT_A_BOX / 2]),
    )  # (k, 3): image, category, row
    rows = op.Gather(selected, op.Constant(value_ints=[0, 2]), axis=1)
    kept = op.Expand(op.Constant(value_ints=[1]), op.Shape(rows, start=0, end=1))
    none = op.Expand(op.Constant(value_int=0), op.Shape(scores))
    return op.Cast(op.ScatterND(none, rows, kept), to=9)


def _onnx_stable_sort(values: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    length = op.Gather(op.Shape(values), op.Constant(value_ints=[dim]))
    # Of equal values, TopK puts the one with the lower index first.
    return op.TopK(values, length, axis=dim, largest=int(descending), sorted=1)
