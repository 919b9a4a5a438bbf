import pytest
import torch
from torch.testing import assert_close
from torchvision.ops import sigmoid_focal_loss

from equigrad import EqualizedFocalLoss, EqualizedQualityFocalLoss, SigmoidScores
from equigrad.models.detection.one_stage.paa import focal_costs, paa
from equigrad.models.detection.one_stage.predictions import image_predictions
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise


def build(loss, **options):
    return randomise(paa(TinyPyramid(), NUM_CLASSES, loss, SigmoidScores(), **options))


def test_the_classification_cost_is_the_focal_loss_of_an_anchor():
    logits, labels = torch.randn(6, 5) * 3, torch.tensor([0, 4, 2, 2, 1, 3])
    one_hot = torch.nn.functional.one_hot(labels, 5).float()
    assert_close(focal_costs(logits, labels), sigmoid_focal_loss(logits, one_hot).sum(1))


@pytest.mark.parametrize(
    ("loss", "takes_quality"),
    [(EqualizedFocalLoss(NUM_CLASSES), False), (EqualizedQualityFocalLoss(NUM_CLASSES), True)],
)
def test_choosing_anchors_leaves_the_statistics_alone(loss, takes_quality):
    loss.statistics.reset()
    model = build(loss, with_quality=takes_quality)
    images, targets = batch()
    outputs = model.outputs(images)
    assignments = model.assignments(outputs, model.anchors(outputs), targets)
    assert sum(len(assignment.positives) for assignment in assignments) > 0
    assert loss.statistics.negative.sum() == 0
    losses = model.losses(outputs, targets)
    gradients = torch.autograd.grad(losses["classification"], [level.logits for level in outputs])
    recorded = loss.statistics.positive + loss.statistics.negative
    assert_close(recorded.float(), sum(gradient.abs().sum((0, 2, 3)) for gradient in gradients), rtol=1e-4, atol=1e-6)


def test_the_statistics_do_not_choose_the_anchors():
    loss = EqualizedFocalLoss(NUM_CLASSES)
    model = build(loss)
    images, targets = batch()
    outputs = model.outputs(images)
    fresh = model.assignments(outputs, model.anchors(outputs), targets)
    loss.statistics.negative.fill_(10.0)  # every category starves
    later = model.assignments(outputs, model.anchors(outputs), targets)
    for before, after in zip(fresh, later, strict=True):
        assert torch.equal(before.labels, after.labels)


def test_an_anchor_that_says_what_its_object_is_becomes_positive():
    model = build(EqualizedFocalLoss(NUM_CLASSES))
    images, targets = batch()
    outputs = model.outputs(images)
    anchors = model.anchors(outputs)
    candidates = model.assigner.assigner.candidates(anchors, targets[0]["boxes"], targets[0]["labels"])
    with torch.no_grad():
        for level in outputs:
            level.logits.fill_(-3.0)
            level.boxes.zero_()
    chosen = candidates.positives[candidates.matched[candidates.positives] == 1][:1]
    height_width = outputs[0].logits.shape[2:].numel()
    assert chosen < height_width  # on the first level
    with torch.no_grad():
        outputs[0].logits[0].flatten(1)[targets[0]["labels"][1], chosen] = 6.0
    predictions = image_predictions(outputs, anchors, model.coder)[0]
    assignment = model.assigner(predictions, targets[0]["boxes"], targets[0]["labels"])
    assert assignment.matched[chosen] == 1
