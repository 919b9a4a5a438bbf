import math

import pytest
import torch
from torchvision.models.detection.retinanet import RetinaNet_ResNet50_FPN_Weights, RetinaNetHead

from equigrad import FocalLoss, SigmoidScores
from equigrad.labels import IGNORE
from equigrad.models.detection.assignment.max_iou import MaxIoUAssigner
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.pyramids.resnet_fpn import resnet50_fpn
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise

STRIDES = (8, 16, 32)


def plain_anchors(height, width, stride):
    """Nine a place: three ratios, each in three sizes."""
    boxes = []
    for y in range(height):
        for x in range(width):
            for ratio in (0.5, 1.0, 2.0):
                for third in range(3):
                    side = 4 * stride * 2 ** (third / 3)
                    w, h = side / math.sqrt(ratio), side * math.sqrt(ratio)
                    cx, cy = (x + 0.5) * stride, (y + 0.5) * stride
                    boxes.append([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
    return boxes


def plain_losses(outputs, targets):
    """Focal loss and L1 of deltas, entry by entry."""
    anchors = [plain_anchors(*o.logits.shape[2:], stride) for o, stride in zip(outputs, STRIDES, strict=True)]
    classification = box = 0.0
    num_positive = 0
    for image, target in enumerate(targets):
        assignment = MaxIoUAssigner(0.5, 0.4)(list(map(torch.tensor, anchors)), target["boxes"], target["labels"])
        labels, matched = iter(assignment.labels.tolist()), iter(assignment.matched.tolist())
        for output, boxes in zip(outputs, anchors, strict=True):
            for index, (x1, y1, x2, y2) in enumerate(boxes):
                label, which = next(labels), next(matched)
                place, a = divmod(index, 9)
                y, x = divmod(place, output.logits.shape[3])
                if label == IGNORE:
                    continue
                for k in range(NUM_CLASSES):
                    z = float(output.logits[image, a * NUM_CLASSES + k, y, x])
                    z, balance = (-z, 0.25) if k == label else (z, 0.75)
                    classification += balance * (1 / (1 + math.exp(-z))) ** 2 * math.log1p(math.exp(z))
                if label < 0:
                    continue
                num_positive += 1
                tx1, ty1, tx2, ty2 = target["boxes"][which].tolist()
                wanted = [
                    ((tx1 + tx2) / 2 - (x1 + x2) / 2) / (x2 - x1),
                    ((ty1 + ty2) / 2 - (y1 + y2) / 2) / (y2 - y1),
                    math.log((tx2 - tx1) / (x2 - x1)),
                    math.log((ty2 - ty1) / (y2 - y1)),
                ]
                box += sum(abs(float(output.boxes[image, 4 * a + i, y, x]) - wanted[i]) for i in range(4))
    return {"classification": classification / num_positive, "box": box / num_positive}


def test_losses_equal_loops_over_all_entries():
    model = randomise(retinanet(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores()), 0.2)
    images, targets = batch()
    outputs = model.outputs(images)
    losses = {name: value.item() for name, value in model.losses(outputs, targets).items()}
    detached = [level._replace(logits=level.logits.detach(), boxes=level.boxes.detach()) for level in outputs]
    expected = plain_losses(detached, targets)
    assert losses == pytest.approx(expected, rel=1e-4)


def test_the_head_has_as_many_parameters_as_torchvision_s():
    pyramid = TinyPyramid(256, (8, 16, 32, 64, 128))
    head = retinanet(pyramid, 91, FocalLoss(), SigmoidScores()).head
    assert count(head) == count(RetinaNetHead(256, 9, 91))


def test_the_full_model_has_as_many_parameters_as_torchvision_publishes():
    model = retinanet(resnet50_fpn(), 91, FocalLoss(), SigmoidScores())
    assert count(model) == RetinaNet_ResNet50_FPN_Weights.COCO_V1.meta["num_params"]


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())
