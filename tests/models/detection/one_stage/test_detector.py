"""Dense detectors as a whole: layout, ignored anchors, batches, state."""

import copy

import pytest
import torch
from torch.testing import assert_close

from equigrad import (
    BinaryCrossEntropyLoss,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    FocalEqualizationLoss,
    FocalLoss,
    QualityFocalLoss,
    SigmoidObjectnessScores,
    SigmoidScores,
    WithObjectness,
)
from equigrad.labels import IGNORE
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.head import DenseHead, LevelOutput
from equigrad.models.detection.one_stage.paa import paa
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise, target


def small_fcos(*arguments, **options):
    return fcos(*arguments, **options, size_ranges=((0, 64), (64, 128), (128, float("inf"))))


BUILDERS = {
    "retinanet": retinanet,
    "fcos": small_fcos,
    "atss": atss,
    "improved_atss": improved_atss,
    "paa": paa,
    "yolox": yolox,
    "yolox_star": yolox_star,
}
LOSSES = {
    "BCE": (BinaryCrossEntropyLoss, False),
    "FL": (FocalLoss, False),
    "QFL": (QualityFocalLoss, True),
    "FL+EQL": (lambda: FocalEqualizationLoss(NUM_CLASSES), False),
    "EFL": (lambda: EqualizedFocalLoss(NUM_CLASSES), False),
    "EQFL": (lambda: EqualizedQualityFocalLoss(NUM_CLASSES), True),
}


def build(name, loss="EFL"):
    make, takes_quality = LOSSES[loss]
    pyramid = TinyPyramid()
    return randomise(BUILDERS[name](pyramid, NUM_CLASSES, make(), SigmoidScores(), with_quality=takes_quality))


@pytest.fixture(params=BUILDERS)
def detector(request):
    return build(request.param)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", BUILDERS)
def test_every_detector_takes_every_loss(name, loss):
    model = build(name, loss)
    losses = model(*batch())
    sum(losses.values()).backward()
    assert all(value.isfinite() and value > 0 for key, value in losses.items() if key != "l1")
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all()
        # A level of YOLOX may have no positive, and then nothing trains its boxes.
        assert parameter.grad.any() or name.startswith("head.levels")


def test_images_without_objects_give_a_loss_that_back_propagates(detector):
    images, _ = batch()
    losses = detector(images, [target([], [])] * 3)
    sum(losses.values()).backward()
    assert losses["box"].item() == 0
    assert all(parameter.grad is not None for parameter in detector.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in detector.parameters())
    assert detector.classification_loss.statistics.positive.sum() == 0


def test_the_loss_of_a_batch_is_that_of_its_images_by_their_positives(detector):
    images, targets = batch()
    for module in detector.modules():  # a batch norm sees other images beside an image
        module.train(not isinstance(module, torch.nn.BatchNorm2d))
    outputs = detector.outputs(images)
    joint = detector.losses(outputs, targets)
    detector.classification_loss.statistics.reset()
    summed, counts = dict.fromkeys(joint, 0.0), 0
    for image, one in enumerate(targets):
        alone = [
            LevelOutput(*(None if maps is None else maps[image : image + 1] for maps in level)) for level in outputs
        ]
        count = num_positive(detector, alone, [one])
        losses = detector.losses(alone, [one])
        detector.classification_loss.statistics.reset()
        for name in ("classification", "quality", "l1"):
            if name in joint:
                summed[name] += losses[name].item() * max(count, 1)
        counts += count
    for name in set(joint) & {"classification", "quality", "l1"}:
        assert joint[name].item() == pytest.approx(summed[name] / counts, rel=1e-4)


def num_positive(model, outputs, targets):
    anchors = model.anchors(outputs)
    return sum(len(assignment.positives) for assignment in model.assignments(outputs, anchors, targets))


def marked_outputs(model, image_size=(64, 96), background=-12.0):
    """Outputs of a head that sees nothing anywhere, for one image."""
    num_anchors = model.grid.num_anchors
    sizes = [(image_size[0] // stride, image_size[1] // stride) for stride in model.grid.strides]
    return [
        LevelOutput(
            torch.full((1, num_anchors * NUM_CLASSES, *size), background).requires_grad_(),
            torch.zeros(1, num_anchors * 4, *size),
            torch.full((1, num_anchors, *size), 3.0),
        )
        for size in sizes
    ]


@pytest.mark.parametrize("name", ["improved_atss", "yolox_star"])
@pytest.mark.parametrize(("level", "anchor", "category", "y", "x"), [(0, 1, 2, 3, 7), (1, 0, 3, 2, 4), (1, 1, 0, 0, 5)])
def test_one_logit_is_the_same_in_loss_statistics_and_detections(name, level, anchor, category, y, x):
    model = build(name)
    outputs = marked_outputs(model)
    channel = anchor * NUM_CLASSES + category
    with torch.no_grad():
        outputs[level].logits[0, channel, y, x] = 5.0
    losses = model.losses(outputs, [target([], [])])
    losses["classification"].backward()
    # statistics: a false positive of this category and of no other
    negative = model.classification_loss.statistics.negative
    assert negative.argmax() == category
    assert negative[category] > 1e4 * negative.sum().sub(negative[category])
    # loss: its gradient is at this entry
    gradient = outputs[level].logits.grad
    place = (channel * gradient.shape[2] + y) * gradient.shape[3] + x
    assert gradient.abs().flatten().argmax() == place
    assert gradient[0, channel, y, x].item() == pytest.approx(negative[category].item(), rel=1e-4)
    # detections: the anchor's own box, as values are 0
    best = model.eval().detections(outputs, [(64, 96)])[0]
    stride, scale = model.grid.strides[level], model.grid.scales[anchor]
    centre = torch.tensor([x + 0.5, y + 0.5]) * stride
    box = torch.cat([centre - scale * stride / 2, centre + scale * stride / 2])
    assert best["labels"][0] == category
    assert_close(best["boxes"][0], torch.minimum(box.clamp(min=0), torch.tensor([96.0, 64, 96, 64])))


def test_a_positive_raises_the_logit_of_its_own_anchor_and_category():
    model = build("improved_atss")
    outputs = marked_outputs(model)
    (assignment,) = model.assignments(outputs, model.anchors(outputs), [target([[30, 20, 90, 60]], [3])])
    losses = model.losses(outputs, [target([[30, 20, 90, 60]], [3])])
    losses["classification"].backward()
    raised = []
    first = 0
    for level in outputs:
        _, _, height, width = level.logits.shape
        for channel, y, x in (level.logits.grad[0] < -1e-3).nonzero().tolist():
            assert channel % NUM_CLASSES == 3
            raised.append(first + 2 * (y * width + x) + channel // NUM_CLASSES)
        first += 2 * height * width
    assert sorted(raised) == assignment.positives.tolist()
    assert len(raised) > 0


def test_ignored_anchors_leave_no_trace():
    model = build("retinanet")
    _, targets = batch()
    outputs = marked_outputs(model, background=0.0)
    (assignment,) = model.assignments(outputs, model.anchors(outputs), targets[2:])
    is_ignored = assignment.labels == IGNORE
    assert is_ignored.any()
    before = model.losses(outputs, targets[2:])
    statistics = copy.deepcopy(model.classification_loss.statistics.state_dict())
    first = 0
    for level in outputs:
        _, channels, height, width = level.logits.shape
        count = 9 * height * width
        ignored = is_ignored[first : first + count].reshape(height, width, 9).permute(2, 0, 1)  # (A, H, W)
        ignored = ignored[:, None].expand(9, NUM_CLASSES, height, width).reshape(1, channels, height, width)
        (gradient,) = torch.autograd.grad(before["classification"], level.logits, retain_graph=True)
        assert (gradient[ignored] == 0).all()
        assert (gradient[~ignored] != 0).all()
        level.logits.data[ignored] = 50.0
        first += count
    model.classification_loss.statistics.reset()
    after = model.losses(outputs, targets[2:])
    assert_close(after["classification"], before["classification"])
    for name, value in model.classification_loss.statistics.state_dict().items():
        assert_close(value, statistics[name])


def test_statistics_move_once_a_step_with_the_gradient_of_all_levels():
    model = build("improved_atss")
    images, targets = batch()
    outputs = model.outputs(images)
    losses = model.losses(outputs, targets)
    gradients = torch.autograd.grad(losses["classification"], [level.logits for level in outputs])
    total = sum(gradient.unflatten(1, (2, NUM_CLASSES)).abs().sum((0, 1, 3, 4)) for gradient in gradients)
    statistics = model.classification_loss.statistics
    assert_close((statistics.positive + statistics.negative).float(), total, rtol=1e-4, atol=1e-6)


def test_evaluation_leaves_the_statistics_and_gives_boxes_inside_the_images(detector):
    images, targets = batch()
    detections = detector.eval()(images, targets)
    assert detector.classification_loss.statistics.negative.sum() == 0
    assert len(detections) == 3
    for found, one in zip(detections, targets, strict=True):
        height, width = one["image_size"].tolist()
        assert 0 < len(found["boxes"]) <= 300
        assert len(found["boxes"]) == len(found["scores"]) == len(found["labels"])
        assert (found["boxes"] >= 0).all()
        assert (found["boxes"][:, 2] <= width).all()
        assert (found["boxes"][:, 3] <= height).all()
        assert ((found["scores"] > 0) & (found["scores"] <= 1)).all()
        assert found["labels"].dtype == torch.int64


def test_without_targets_the_whole_image_counts(detector):
    images, targets = batch()
    whole = detector.eval()(images)[1]
    assert whole["boxes"][:, 2].max() <= 96
    sized = detector(images, [{key: one[key] for key in ("boxes", "labels")} for one in targets])[1]
    assert_close(sized["boxes"], whole["boxes"])


def test_a_detector_is_what_it_was_after_saving_and_loading(detector):
    images, targets = batch()
    sum(detector(images, targets).values()).backward()
    state = detector.state_dict()
    assert state["classification_loss.statistics.negative"].sum() > 0
    other = copy.deepcopy(detector)
    for value in other.state_dict().values():
        value.zero_()
    other.load_state_dict(state)
    for found, expected in zip(other.eval()(images), detector.eval()(images), strict=True):
        for name, values in expected.items():
            assert torch.equal(found[name], values)


def test_channels_last_gives_the_same(detector):
    images, targets = batch()
    expected = detector(images, targets)
    detector.classification_loss.statistics.reset()
    found = detector.to(memory_format=torch.channels_last)(images, targets)
    for name, value in expected.items():
        assert_close(found[name], value, rtol=1e-4, atol=1e-5)


def test_padding_is_background_like_any_other():
    model = build("improved_atss")
    images, targets = batch()
    whole = model(images, targets)["classification"]
    model.classification_loss.statistics.reset()
    padded = model(images, [one | {"image_size": torch.tensor((64, 60))} for one in targets])["classification"]
    assert_close(padded, whole)


def test_mixed_precision_trains_and_predicts_in_float32(detector):
    images, targets = batch()
    with torch.autocast("cpu", torch.bfloat16):
        losses = detector(images, targets)
        assert all(value.dtype == torch.float32 and value.isfinite() for value in losses.values())
        found = detector.eval()(images)[0]
    assert found["boxes"].dtype == found["scores"].dtype == torch.float32


def test_a_loss_with_an_objectness_column_trains_and_predicts():
    loss = WithObjectness(EqualizedFocalLoss(NUM_CLASSES))
    model = improved_atss(TinyPyramid(), NUM_CLASSES, loss, SigmoidObjectnessScores())
    images, targets = batch()
    sum(model(images, targets).values()).backward()
    assert loss.loss.statistics.negative.sum() > 0
    assert model.eval()(images)[0]["labels"].max() < NUM_CLASSES


def test_training_without_targets_is_refused(detector):
    with pytest.raises(ValueError, match="training needs targets"):
        detector(batch()[0])


def test_targets_of_other_images_are_refused(detector):
    images, targets = batch()
    with pytest.raises(ValueError, match="targets of 3 images, got 2"):
        detector(images, targets[:2])


def test_a_head_without_the_quality_that_is_to_be_trained_is_refused():
    model = build("atss")
    model.head = DenseHead(8, NUM_CLASSES, num_levels=3)
    with pytest.raises(ValueError, match="no quality output"):
        model(*batch())


def test_a_pyramid_without_shape_is_refused():
    with pytest.raises(ValueError, match="num_channels and a tuple of strides, got Identity"):
        retinanet(torch.nn.Identity(), 3, FocalLoss(), SigmoidScores())


def test_a_pyramid_with_imagenet_features_is_refused():
    with torch.device("meta"):
        pyramid = LiteFPN(imagenet_features=True)
        with pytest.raises(ValueError, match=r"backbone\.imagenet_features is for two-stage detectors"):
            retinanet(pyramid, NUM_CLASSES, FocalLoss(), SigmoidScores())


def test_the_exported_network_gives_the_same_boxes():
    model = build("improved_atss").eval()
    images, targets = batch()
    network = torch.nn.Sequential(model.pyramid, model.head)
    exported = torch.export.export(network, (images,)).module()
    sizes = [tuple(one["image_size"].tolist()) for one in targets]
    found = model.detections(exported(images), sizes)
    for one, expected in zip(found, model(images, targets), strict=True):
        for name, values in expected.items():
            assert_close(one[name], values)
