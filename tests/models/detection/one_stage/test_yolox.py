import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from equigrad import EqualizedFocalLoss, FocalLoss, QualityFocalLoss, SigmoidScores
from equigrad.models.detection.one_stage.predictions import join, join_quality
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.pyramids.csp_darknet import csp_darknet_m, csp_darknet_s
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise


def build(**options):
    loss = QualityFocalLoss(focus=0)
    model = yolox(TinyPyramid(), NUM_CLASSES, loss, SigmoidScores(), with_quality=True, **options)
    return randomise(model)


def test_losses_equal_plain_ones_of_the_matched_cells():
    model = build(first_l1_epoch=0)
    images, targets = batch()
    outputs = model.outputs(images)
    anchors = model.anchors(outputs)
    cells = torch.cat(anchors)
    logits, values = join([level.logits for level in outputs], NUM_CLASSES), join([level.boxes for level in outputs], 4)
    told = join_quality(outputs)
    sums = {"classification": 0.0, "box": 0.0, "l1": 0.0, "quality": 0.0}
    num_positive = 0
    for image, assignment in enumerate(model.assignments(outputs, anchors, targets)):
        is_object = torch.zeros(len(cells))
        for p in assignment.positives.tolist():
            is_object[p] = 1
            num_positive += 1
            stride = (cells[p, 2] - cells[p, 0]).item()
            x1, y1, x2, y2 = targets[image]["boxes"][assignment.matched[p]].tolist()
            dx, dy, dw, dh = values[image, p].tolist()
            cx, cy = cells[p, 0].item() + dx * stride, cells[p, 1].item() + dy * stride
            w, h = math.exp(dw) * stride, math.exp(dh) * stride
            across = max(0.0, min(cx + w / 2, x2) - max(cx - w / 2, x1))
            down = max(0.0, min(cy + h / 2, y2) - max(cy - h / 2, y1))
            iou = across * down / (w * h + (x2 - x1) * (y2 - y1) - across * down)
            sums["box"] += 5 * (1 - iou**2)
            wanted = [((x1 + x2) / 2 - cells[p, 0].item()) / stride, ((y1 + y2) / 2 - cells[p, 1].item()) / stride]
            wanted += [math.log((x2 - x1) / stride), math.log((y2 - y1) / stride)]
            sums["l1"] += (values[image, p] - torch.tensor(wanted)).abs().sum().item()
            soft = torch.zeros(NUM_CLASSES)
            soft[assignment.labels[p]] = iou
            sums["classification"] += F.binary_cross_entropy_with_logits(logits[image, p], soft, reduction="sum").item()
        sums["quality"] += F.binary_cross_entropy_with_logits(told[image], is_object, reduction="sum").item()
    expected = {name: value / num_positive for name, value in sums.items()}
    losses = {name: value.item() for name, value in model.losses(outputs, targets).items()}
    assert losses == pytest.approx(expected, rel=1e-4)


def test_background_is_left_to_the_objectness():
    images, targets = batch()
    model = build()
    outputs = model.outputs(images)
    gradients = torch.autograd.grad(
        model.losses(outputs, targets)["classification"], [level.logits for level in outputs]
    )
    touched = join([gradient.abs() for gradient in gradients], NUM_CLASSES).sum(-1) > 0
    labels = torch.stack([each.labels for each in model.assignments(outputs, model.anchors(outputs), targets)])
    assert torch.equal(touched, labels >= 0)


def test_a_focal_loss_may_see_the_background_too():
    loss = EqualizedFocalLoss(NUM_CLASSES)
    model = yolox(TinyPyramid(), NUM_CLASSES, loss, SigmoidScores(), classifies_background=True)
    outputs = model.outputs(batch()[0])
    gradients = torch.autograd.grad(
        model.losses(outputs, batch()[1])["classification"], [level.logits for level in outputs]
    )
    assert all((gradient != 0).all() for gradient in gradients)


def test_l1_begins_with_its_epoch():
    model = build(first_l1_epoch=2)
    images, targets = batch()
    names = []
    for epoch in (1, 2, 3, 0):
        model.set_epoch(epoch)
        names.append(set(model(images, targets)))
    without = {"classification", "box", "quality"}
    assert names == [without, without | {"l1"}, without | {"l1"}, without]


def test_the_iou_of_yolox_star_is_told_by_positives_alone():
    model = yolox_star(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores())
    images, targets = batch()
    outputs = model.outputs(images)
    gradients = torch.autograd.grad(model.losses(outputs, targets)["quality"], [level.quality for level in outputs])
    touched = join([gradient.abs() for gradient in gradients], 1).squeeze(-1) > 0
    labels = torch.stack([each.labels for each in model.assignments(outputs, model.anchors(outputs), targets)])
    assert torch.equal(touched, labels >= 0)


def test_categories_and_quality_start_at_the_prior():
    head = yolox_star(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores()).head
    for level in head.levels:
        assert_close(level.logits.bias.sigmoid(), torch.full((2 * NUM_CLASSES,), 0.001))
        assert_close(level.quality.bias.sigmoid(), torch.full((2,), 0.001))


# YOLOX's README: 9.0 and 25.3 million parameters with the 80 categories of COCO.
@pytest.mark.parametrize(("pyramid", "millions"), [(csp_darknet_s, 8.97), (csp_darknet_m, 25.33)])
def test_the_full_models_have_the_published_numbers_of_parameters(pyramid, millions):
    model = yolox(pyramid(), 80, QualityFocalLoss(focus=0), SigmoidScores(), with_quality=True)
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total / 1e6 == pytest.approx(millions, abs=0.005)
