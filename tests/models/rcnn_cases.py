"""Two-stage detectors for tests: batches with padding, small pyramids, and every loss with what goes with it."""

from functools import partial
from typing import Any, NamedTuple

import torch

import equigrad
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.two_stage.roi_head import RoIClassifier
from equigrad.models.detection.two_stage.roi_scores import (
    SoftmaxBackgroundScores,
    TwoWayObjectness,
    TwoWayObjectnessScores,
)

COUNTS = [5, 50, 500, 5000, 20]
NUM_CLASSES = len(COUNTS)
SIGMOID = {"classifier": partial(RoIClassifier, prior=0.001)}


class Case(NamedTuple):
    loss: Any  # made anew for each model
    scores: Any
    settings: dict[str, Any]


def with_objectness(loss, **options):
    return equigrad.WithObjectness(loss(NUM_CLASSES, reduction="mean", **options))


LOSSES = {
    "cross-entropy": Case(equigrad.CrossEntropyLoss, SoftmaxBackgroundScores(), {"background_column": NUM_CLASSES}),
    "binary cross-entropy": Case(equigrad.BinaryCrossEntropyLoss, equigrad.SigmoidScores(), SIGMOID),
    "gradient blocking": Case(
        partial(equigrad.GradientBlockingLoss, COUNTS, threshold=40), equigrad.SigmoidScores(), SIGMOID
    ),
    "seesaw": Case(
        # Without compensation: the published factor is one of the loss alone, not of the scores.
        lambda: TwoWayObjectness(with_objectness(equigrad.SeesawLoss, compensation=0.0)),
        TwoWayObjectnessScores(equigrad.SoftmaxObjectnessScores()),
        {
            "divide_by_rois": True,
            "classifier": partial(equigrad.CosineClassifier, temperature=20.0, bias=True, norm_offset=1e-6),
        },
    ),
    "BAGS": Case(
        partial(equigrad.GroupedSoftmaxLoss, COUNTS, others_ratio=None), equigrad.GroupedSoftmaxScores(COUNTS), {}
    ),
    "Softmax-EQL": Case(
        partial(with_objectness, equigrad.SoftmaxEqualizationLoss),
        equigrad.SoftmaxObjectnessScores(),
        {"divide_by_rois": True, "classifier": equigrad.CosineClassifier},
    ),
    "Sigmoid-EQL": Case(
        partial(with_objectness, equigrad.SigmoidEqualizationLoss), equigrad.SigmoidObjectnessScores(), SIGMOID
    ),
}


def small_pyramid(seed=0):
    torch.manual_seed(seed)
    return SmallFPN(4, num_channels=8, strides=(8, 16, 32))


def make_detector(builder, name, **settings):
    """A small detector with one of the losses."""
    case = LOSSES[name]
    small = {"num_features": 16} | case.settings | settings
    return builder(small_pyramid(), NUM_CLASSES, case.loss(), case.scores, **small)


def make_batch(seed=0, size=(64, 96), sizes=((64, 96), (50, 70)), num_objects=(3, 2), num_classes=NUM_CLASSES):
    """Images of noise and targets with masks that fill the left half of their boxes."""
    torch.manual_seed(seed)
    images = torch.randint(0, 256, (len(sizes), 3, *size), dtype=torch.uint8)
    return images, [make_target(each, count, num_classes) for each, count in zip(sizes, num_objects, strict=True)]


def make_target(size, num_objects, num_classes=NUM_CLASSES):
    height, width = size
    start = torch.rand(num_objects, 2) * torch.tensor([width * 0.5, height * 0.5])
    sides = 8 + torch.rand(num_objects, 2) * torch.tensor([width * 0.4, height * 0.4])
    boxes = torch.cat([start, start + sides], 1)
    masks = torch.zeros(num_objects, height, width, dtype=torch.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
        mask[y1:y2, x1 : (x1 + x2) // 2] = 1
    labels = torch.randint(0, num_classes, (num_objects,))
    return {"boxes": boxes, "labels": labels, "masks": masks, "image_size": torch.tensor(size)}
