"""Weights of torchvision's detectors in ours: Faster R-CNN, Mask R-CNN, RetinaNet and FCOS, versions 1 and 2.

    model = mask_rcnn(resnet50_fpn(extra="pool", norm_eps=0.0), 90, CrossEntropyLoss(), SoftmaxBackgroundScores(),
                      background_column=90)
    model.load_state_dict(from_torchvision(read_weights(file)))

| theirs | ours, on `resnet50_fpn` |
|---|---|
| `fasterrcnn_resnet50_fpn`, `maskrcnn_resnet50_fpn` | `faster_rcnn`, `mask_rcnn`; `extra="pool"` |
| `fasterrcnn_resnet50_fpn_v2`, `maskrcnn_resnet50_fpn_v2` | with `version=2`; `extra="pool", fpn_batch_norm=True` |
| `retinanet_resnet50_fpn` | `retinanet(torchvision_anchors=True)`; `extra="p5"` |
| `retinanet_resnet50_fpn_v2` | `retinanet(torchvision_anchors=True, group_norm=True)`; `extra="c5"` |
| `fcos_resnet50_fpn` | `fcos(torchvision_points=True)`; `extra="p5"` |

Weights `COCO_V1` of Faster R-CNN, Mask R-CNN and RetinaNet also need `norm_eps=0.0`. In torchvision background is
category 0, with a box and a mask of its own; here it is the last column of a softmax, and sigmoids have no such column.
"""

import re
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from equigrad.models.detection.pyramids.resnet_fpn import present_name

Family = Literal["Faster R-CNN", "Mask R-CNN", "RetinaNet", "FCOS"]

_NUM_LEVELS = 5  # of theirs, P3 to P7
_CLASSIFIER = "head.classification_head.cls_logits."
_DENSE_LAYERS = {
    _CLASSIFIER: "head.logits.",
    "head.regression_head.bbox_reg.": "head.boxes.",
    "head.regression_head.bbox_ctrness.": "head.quality.",
}
_TOWERS = {"classification": "class_tower", "regression": "box_tower"}
# Names of the R-CNNs: those of 2019, then ours.
_RENAMES = (
    (r"^rpn\.head\.conv\.(weight|bias)$", r"rpn.head.conv.0.0.\1"),
    (r"^roi_heads\.mask_head\.mask_fcn1\.", "roi_heads.mask_head.0.0."),
    (r"^roi_heads\.mask_head\.mask_fcn2\.", "roi_heads.mask_head.1.0."),
    (r"^roi_heads\.mask_head\.mask_fcn3\.", "roi_heads.mask_head.2.0."),
    (r"^roi_heads\.mask_head\.mask_fcn4\.", "roi_heads.mask_head.3.0."),
    (r"^roi_heads\.mask_head\.", "roi_heads.mask_branch.head."),
    (r"^roi_heads\.mask_predictor\.", "roi_heads.mask_branch.predictor."),
)


def torchvision_family(state: Mapping[str, Tensor]) -> Family | None:
    """Which of torchvision's detectors has such weights; None if it is none of them."""
    if "roi_heads.box_predictor.cls_score.weight" in state and "backbone.body.conv1.weight" in state:
        return "Mask R-CNN" if "roi_heads.mask_predictor.mask_fcn_logits.weight" in state else "Faster R-CNN"
    if f"{_CLASSIFIER}weight" in state:
        return "FCOS" if "head.regression_head.bbox_ctrness.weight" in state else "RetinaNet"
    return None


def from_torchvision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The `state_dict` of a torchvision detector with names and columns of ours with class-specific boxes."""
    state = {present_name(name): value for name, value in state.items()}
    if torchvision_family(state) in ("RetinaNet", "FCOS"):
        return _of_dense(state)
    return {_renamed(name): _without_background(name, value) for name, value in state.items()}


def num_categories(state: Mapping[str, Tensor]) -> int:
    """Categories of a torchvision detector, without background."""
    if torchvision_family(state) in ("RetinaNet", "FCOS"):
        return _num_columns(state) - 1
    return len(state["roi_heads.box_predictor.cls_score.weight"]) - 1


def _renamed(name: str) -> str:
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _without_background(name: str, value: Tensor) -> Tensor:
    if name.startswith("roi_heads.box_predictor.cls_score."):
        return torch.cat([value[1:], value[:1]])
    if name.startswith("roi_heads.box_predictor.bbox_pred."):
        return value[4:]
    if name.startswith("roi_heads.mask_predictor.mask_fcn_logits."):
        return value[1:]
    return value


def _of_dense(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """RetinaNet or FCOS."""
    num_columns, with_norm = _num_columns(state), _has_norms(state)
    converted: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.startswith(_CLASSIFIER):  # channel a * K + k, of which k = 0 is never trained
            value = value.reshape(-1, num_columns, *value.shape[1:])[:, 1:].flatten(0, 1)
        converted[_dense_name(name, with_norm)] = value
    for tower in _TOWERS.values():  # theirs have no bias before a norm, or none of them
        for index in range(0, 12 if with_norm else 0, 3):
            weight = converted[f"head.{tower}.{index}.weight"]
            converted.setdefault(f"head.{tower}.{index}.bias", weight.new_zeros(len(weight)))
    if torchvision_family(state) == "FCOS":
        converted["head.scales"] = value.new_ones(_NUM_LEVELS)  # theirs has no such factor
    return converted


def _dense_name(name: str, with_norm: bool) -> str:
    if name.startswith("backbone."):
        return f"pyramid.{name.removeprefix('backbone.')}"
    for theirs, ours in _DENSE_LAYERS.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    block = re.fullmatch(r"head\.(classification|regression)_head\.conv\.(\d+)\.([01])\.(\w+)", name)
    if block is not None:  # blocks of convolution, norm and activation
        index = int(block[2]) * (3 if with_norm else 2) + int(block[3])
        return f"head.{_TOWERS[block[1]]}.{index}.{block[4]}"
    flat = re.fullmatch(r"head\.(classification|regression)_head\.conv\.(\d+)\.(\w+)", name)
    return name if flat is None else f"head.{_TOWERS[flat[1]]}.{flat[2]}.{flat[3]}"


def _has_norms(state: Mapping[str, Tensor]) -> bool:
    tower = "head.classification_head.conv."
    return any(f"{tower}{norm}.weight" in state for norm in ("0.1", "1"))


def _num_columns(state: Mapping[str, Tensor]) -> int:
    """K, of an anchor; FCOS has one anchor and RetinaNet as many as it has boxes."""
    num_anchors = len(state["head.regression_head.bbox_reg.weight"]) // 4
    return len(state[f"{_CLASSIFIER}weight"]) // num_anchors
