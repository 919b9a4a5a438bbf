"""Weights of torchvision's Faster and Mask R-CNN in ours.

    model = mask_rcnn(resnet50_fpn(extra="pool", norm_eps=0.0), 90, CrossEntropyLoss(), SoftmaxBackgroundScores(),
                      background_column=90)
    model.load_state_dict(from_torchvision(read_weights(file)))

Theirs has the background as category 0, with a box and a mask of its own; here it is the last column of the classifier.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

_BRANCH = {
    "roi_heads.mask_head.": "roi_heads.mask_branch.head.",
    "roi_heads.mask_predictor.": "roi_heads.mask_branch.predictor.",
}


def from_torchvision(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The `state_dict` of a torchvision detector with names and columns of an `RCNN` with class-specific boxes."""
    return {_renamed(name): _without_background(name, value) for name, value in state.items()}


def _renamed(name: str) -> str:
    for theirs, ours in _BRANCH.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _without_background(name: str, value: Tensor) -> Tensor:
    if name.startswith("roi_heads.box_predictor.cls_score."):
        return torch.cat([value[1:], value[:1]])
    if name.startswith("roi_heads.box_predictor.bbox_pred."):
        return value[4:]
    if name.startswith("roi_heads.mask_predictor.mask_fcn_logits."):
        return value[1:]
    return value
