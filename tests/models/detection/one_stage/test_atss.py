"""ATSS and the improved baseline against loops over every anchor and category."""

import math

import pytest
import torch
from torch.testing import assert_close

from equigrad import EqualizedFocalLoss, EqualizedQualityFocalLoss, FocalLoss, SigmoidScores
from equigrad.models.detection.assignment.atss import ATSSAssigner
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise

STRIDES = (8, 16, 32)


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def box_numbers(box, other):
    """IoU and generalized IoU of two boxes, as numbers."""
    common = max(0.0, min(box[2], other[2]) - max(box[0], other[0])) * max(
        0.0, min(box[3], other[3]) - max(box[1], other[1])
    )
    union = (box[2] - box[0]) * (box[3] - box[1]) + (other[2] - other[0]) * (other[3] - other[1]) - common
    around = (max(box[2], other[2]) - min(box[0], other[0])) * (max(box[3], other[3]) - min(box[1], other[1]))
    return common / union, common / union - (around - union) / around


def places(outputs, scales):
    """Level, y, x, anchor and anchor box, in the order of assignments."""
    for level, output in enumerate(outputs):
        for y in range(output.logits.shape[2]):
            for x in range(output.logits.shape[3]):
                for a, scale in enumerate(scales):
                    cx, cy, half = (x + 0.5) * STRIDES[level], (y + 0.5) * STRIDES[level], scale * STRIDES[level] / 2
                    yield level, y, x, a, [cx - half, cy - half, cx + half, cy + half]


def plain_losses(outputs, targets, scales, focus, weight):
    """Losses and the gradient magnitudes of the logits of the improved baseline with EFL, entry by entry."""
    anchors = list(places(outputs, scales))
    per_level = [torch.tensor([box for at, *_, box in anchors if at == level]) for level in range(3)]
    classification = box_sum = iou_sum = quality_sum = 0.0
    num_positive = 0
    positive, negative = [0.0] * NUM_CLASSES, [0.0] * NUM_CLASSES
    for image, target in enumerate(targets):
        assignment = ATSSAssigner(9 * len(scales))(per_level, target["boxes"], target["labels"])
        for p, (level, y, x, a, anchor) in enumerate(anchors):
            label = int(assignment.labels[p])
            for k in range(NUM_CLASSES):
                z = float(outputs[level].logits[image, a * NUM_CLASSES + k, y, x])
                z, balance = (-z, 0.25) if k == label else (z, 0.75)  # 1 - p_t = sigmoid(z)
                error, cost = sigmoid(z), math.log1p(math.exp(z))
                classification += balance * weight[k] * error ** focus[k] * cost
                slope = balance * weight[k] * error ** focus[k] * (error + focus[k] * (1 - error) * cost)
                (positive if k == label else negative)[k] += slope
            if label < 0:
                continue
            num_positive += 1
            dx, dy, dw, dh = (float(outputs[level].boxes[image, 4 * a + i, y, x]) for i in range(4))
            side = anchor[2] - anchor[0]
            cx, cy = (anchor[0] + anchor[2]) / 2 + dx * side, (anchor[1] + anchor[3]) / 2 + dy * side
            w, h = side * math.exp(dw), side * math.exp(dh)
            box = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
            iou, generalized = box_numbers(box, target["boxes"][int(assignment.matched[p])].tolist())
            box_sum += iou * (1 - generalized)
            iou_sum += iou
            told = float(outputs[level].quality[image, a, y, x])
            quality_sum += math.log1p(math.exp(told)) - iou * told
    losses = {
        "classification": classification / num_positive,
        "box": box_sum / max(iou_sum, 1),
        "quality": quality_sum / num_positive,
    }
    return losses, [value / num_positive for value in positive], [value / num_positive for value in negative]


def test_the_improved_baseline_with_efl_equals_loops_over_all_entries():
    loss = EqualizedFocalLoss(NUM_CLASSES)
    # With logits around 0 the statistics would move from level to level, if they moved within a step.
    model = randomise(improved_atss(TinyPyramid(), NUM_CLASSES, loss, SigmoidScores(), prior=0.3), 0.2)
    loss.statistics.positive.copy_(torch.tensor([0.8, 0.1, 0.3, 0.0]))
    loss.statistics.negative.copy_(torch.tensor([0.8, 1.0, 0.4, 0.0]))
    focus = [2.0, 2 + 8 * 0.9, 2 + 8 * 0.25, 2.0]
    images, targets = batch()
    outputs = model.outputs(images)
    detached = [level._replace(**{name: getattr(level, name).detach() for name in level._fields}) for level in outputs]
    expected, positive, negative = plain_losses(detached, targets, (6, 8), focus, [value / 2 for value in focus])
    losses = model.losses(outputs, targets)
    assert {name: value.item() for name, value in losses.items()} == pytest.approx(expected, rel=1e-4)
    assert_close(
        loss.statistics.positive,
        torch.tensor([0.8, 0.1, 0.3, 0.0]) + torch.tensor(positive).double(),
        rtol=1e-4,
        atol=1e-6,
    )
    assert_close(
        loss.statistics.negative,
        torch.tensor([0.8, 1.0, 0.4, 0.0]) + torch.tensor(negative).double(),
        rtol=1e-4,
        atol=1e-6,
    )


def test_the_iou_that_weights_boxes_and_is_to_be_told_has_no_gradient():
    model = randomise(improved_atss(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores()))
    images, targets = batch()
    outputs = model.outputs(images)
    quality = model.losses(outputs, targets)["quality"]
    gradients = torch.autograd.grad(quality, [level.boxes for level in outputs], allow_unused=True)
    assert all(gradient is None for gradient in gradients)


def test_categories_start_at_the_prior():
    model = improved_atss(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores())
    assert_close(model.head.logits.bias.sigmoid(), torch.full((2 * NUM_CLASSES,), 0.001))


def test_atss_weights_boxes_by_their_centre_ness():
    model = randomise(atss(TinyPyramid(), NUM_CLASSES, FocalLoss(), SigmoidScores()))
    images, targets = batch()
    outputs = model.outputs(images)
    anchors = model.anchors(outputs)
    assignments = model.assignments(outputs, anchors, targets)
    joined = torch.cat(anchors)
    weighted = total = 0.0
    for image, (assignment, target) in enumerate(zip(assignments, targets, strict=True)):
        for p in assignment.positives.tolist():
            level, start = next(
                (at, first) for at, first in enumerate([0, 96, 120]) if first <= p < first + len(anchors[at])
            )
            width = outputs[level].boxes.shape[3]
            y, x = divmod(p - start, width)
            values = outputs[level].boxes[image, :, y, x]
            box = model.coder.decode(joined[p], values).tolist()
            wanted = target["boxes"][int(assignment.matched[p])].tolist()
            cx, cy = (joined[p, 0] + joined[p, 2]).item() / 2, (joined[p, 1] + joined[p, 3]).item() / 2
            left, top, right, bottom = cx - wanted[0], cy - wanted[1], wanted[2] - cx, wanted[3] - cy
            weight = math.sqrt(min(left, right) / max(left, right) * min(top, bottom) / max(top, bottom))
            weighted += weight * 2 * (1 - box_numbers(box, wanted)[1])
            total += weight
    assert model.losses(outputs, targets)["box"].item() == pytest.approx(weighted / max(total, 1), rel=1e-4)


def test_parameters_of_the_full_heads_counted_by_hand():
    pyramid = TinyPyramid(256, (8, 16, 32, 64, 128))
    towers = 8 * (256 * 256 * 9 + 256 + 2 * 256)  # convolution with bias, group normalisation

    def outputs(channels):
        return channels * (256 * 9 + 1)

    head = improved_atss(pyramid, 1203, FocalLoss(), SigmoidScores()).head
    assert count(head) == towers + outputs(2 * 1203) + outputs(2 * 4) + outputs(2)
    head = atss(pyramid, 80, FocalLoss(), SigmoidScores()).head
    assert count(head) == towers + outputs(80) + outputs(4) + outputs(1) + 5


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("with_quality", [False, True])
def test_boxes_that_end_on_their_last_pixel_give_the_same_losses_and_detections(with_quality):
    """Equality needs every part, from the anchors to NMS, to follow the convention."""
    images, targets = batch()
    last_pixel = torch.tensor([0.0, 0.0, 1.0, 1.0])
    legacy_targets = [target | {"boxes": target["boxes"] - last_pixel} for target in targets]
    loss = EqualizedQualityFocalLoss if with_quality else EqualizedFocalLoss

    def build(legacy_pixels):
        torch.manual_seed(0)
        model = improved_atss(
            TinyPyramid(),
            NUM_CLASSES,
            loss(NUM_CLASSES),
            SigmoidScores(),
            with_quality=with_quality,
            legacy_pixels=legacy_pixels,
        )
        return randomise(model)

    plain, legacy = build(legacy_pixels=False), build(legacy_pixels=True)
    assert_close(legacy(images, legacy_targets), plain(images, targets))
    with torch.no_grad():
        detections, legacy_detections = plain.eval()(images, targets), legacy.eval()(images, targets)
    for ours, theirs in zip(detections, legacy_detections, strict=True):
        assert len(ours["boxes"]) > 20
        assert_close(theirs["boxes"] + last_pixel, ours["boxes"], atol=1e-3, rtol=0)
        assert_close(theirs["scores"], ours["scores"])
        assert torch.equal(theirs["labels"], ours["labels"])
