import pytest
import torch
from torchvision.models.detection.fcos import FCOS_ResNet50_FPN_Weights, FCOSHead
from torchvision.ops import generalized_box_iou_loss, sigmoid_focal_loss

from equigrad import FocalLoss, SigmoidScores
from equigrad.models.detection.assignment.centre import SIZE_RANGES
from equigrad.models.detection.one_stage.fcos import _size_ranges, fcos
from equigrad.models.detection.pyramids.resnet_fpn import resnet50_fpn
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise

RANGES = ((0, 64), (64, 128), (128, float("inf")))


def test_losses_equal_those_of_torchvision_s_functions():
    model = randomise(fcos(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores(), size_ranges=RANGES))
    images, targets = batch()
    outputs = model.outputs(images)
    anchors = model.anchors(outputs)
    labels, logits, boxes, wanted, weights, told = [], [], [], [], [], []
    for image, target in enumerate(targets):
        assignment = model.assigner(anchors, target["boxes"], target["labels"])
        logits.append(torch.cat([level.logits[image].flatten(1).T for level in outputs]))
        labels.append(assignment.labels)
        for p in assignment.positives.tolist():
            distances = torch.cat([level.boxes[image].flatten(1).T for level in outputs])[p]
            stride = (torch.cat(anchors)[p, 2] - torch.cat(anchors)[p, 0]).item()
            point = torch.cat(anchors)[p, :2] + stride / 2
            assert (distances >= 0).all()
            boxes.append(torch.cat([point - stride * distances[:2], point + stride * distances[2:]]))
            box = target["boxes"][assignment.matched[p]]
            wanted.append(box)
            sides = torch.stack([point - box[:2], box[2:] - point])  # left top, right bottom
            weights.append((sides.amin(0) / sides.amax(0)).prod().sqrt())
            told.append(torch.cat([level.quality[image].flatten() for level in outputs])[p])
    one_hot = (torch.cat(labels)[:, None] == torch.arange(NUM_CLASSES)).float()
    weights = torch.stack(weights)
    overlap = generalized_box_iou_loss(torch.stack(boxes), torch.stack(wanted))
    quality = torch.nn.functional.binary_cross_entropy_with_logits(torch.stack(told), weights)
    losses = {name: value.item() for name, value in model.losses(outputs, targets).items()}
    assert losses == pytest.approx(
        {
            "classification": (sigmoid_focal_loss(torch.cat(logits), one_hot).sum() / len(boxes)).item(),
            "box": ((overlap * weights).sum() / max(weights.sum().item(), 1)).item(),
            "quality": quality.item(),
        },
        rel=1e-4,
    )


def test_the_full_model_has_as_many_parameters_as_torchvision_publishes_and_a_scale_a_level():
    model = fcos(resnet50_fpn(), 91, FocalLoss(), SigmoidScores())
    assert count(model) == FCOS_ResNet50_FPN_Weights.COCO_V1.meta["num_params"] + 5
    assert count(model.head) == count(FCOSHead(256, 1, 91)) + 5


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_sizes_go_up_to_eight_strides_of_each_level():
    assert _size_ranges((8, 16, 32, 64, 128)) == list(SIZE_RANGES)  # the published ones
    assert _size_ranges((4, 8, 16)) == [(0, 32), (32, 64), (64, float("inf"))]
