"""A training step waits for its device only where `docs/gpu.md` says so."""

import copy
import re
from functools import partial

import pytest
import torch
from torch.testing import assert_close

import equigrad
from equigrad.data.detection.object_masks import ObjectMasks
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.backbones.small_encoder import SmallEncoder
from equigrad.models.classification.classifier import build_classifier
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.paa import paa
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.two_stage.rcnn import mask_rcnn
from equigrad.models.segmentation.pspnet import PSPHead
from equigrad.models.segmentation.segmenter import build_segmenter
from equigrad.models.segmentation.upsampled_loss import TiledLoss
from models.rcnn_cases import LOSSES, make_batch, make_detector
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise
from scripts import ROOT
from waiting import DEVICE, to_device, watched

DENSE = {
    "retinanet": retinanet,
    "fcos": partial(fcos, size_ranges=((0, 64), (64, 128), (128, float("inf")))),
    "atss": atss,
    "improved_atss": improved_atss,
    "paa": paa,
    "yolox": yolox,
    "yolox_star": yolox_star,
}


def dense_detector(name):
    loss, scores = equigrad.EqualizedQualityFocalLoss(NUM_CLASSES), equigrad.SigmoidScores()
    return randomise(DENSE[name](TinyPyramid(), NUM_CLASSES, loss, scores, with_quality=True)), *on_host(*batch())


def two_stage_detector(loss):
    images, targets = on_host(*make_batch())
    targets = [target | {"masks": ObjectMasks.of(target["masks"])} for target in targets]
    return make_detector(mask_rcnn, loss, num_mask_channels=8), images, targets


def on_host(images, targets):
    """With sizes as plain numbers, as `collate_detection` gives them."""
    return images, [target | {"image_size": tuple(target["image_size"].tolist())} for target in targets]


def classifier():
    model = build_classifier(SmallConvNet(), 5, equigrad.SoftmaxEqualizationLoss(5), equigrad.SoftmaxScores())
    return model, torch.rand(2, 3, 32, 32), {"labels": torch.tensor([0, 4])}


def segmenter(resolution):
    loss, head = equigrad.SoftmaxEqualizationLoss(5), partial(PSPHead, channels=8, grids=(1, 2))
    model = build_segmenter(SmallEncoder(4), head, 5, loss, equigrad.SoftmaxScores(), **resolution)
    return model, torch.rand(2, 3, 32, 32), {"labels": torch.randint(5, (2, 32, 32))}


CASES = {
    "classifier": classifier,
    "segmenter": partial(segmenter, {}),
    "tiled segmenter": partial(segmenter, {"resolution": TiledLoss}),
    **{name: partial(dense_detector, name) for name in DENSE},
    **{f"mask_rcnn, {loss}": partial(two_stage_detector, loss) for loss in LOSSES},
}


@pytest.fixture(scope="module")
def steps():
    """The second step of each model: its losses, those on the CPU, and the waits. The first one copies constants."""
    return {name: second_step(*make()) for name, make in CASES.items()}


def second_step(model, images, targets):
    on_cpu = [losses_of_step(model_on_cpu, images, targets) for model_on_cpu in [copy.deepcopy(model)] for _ in "12"]
    with watched() as waits:
        model, images, targets = to_device(model), to_device(images), to_device(targets)
        losses_of_step(model, images, targets)
        waits.clear()
        losses = losses_of_step(model, images, targets)
        found = list(waits)
        return {name: loss.cpu() for name, loss in losses.items()}, on_cpu[1], found


def losses_of_step(model, images, targets):
    torch.manual_seed(0)
    losses = model(images, targets)
    sum(losses.values()).backward()
    return {name: loss.detach() for name, loss in losses.items()}


def documented():
    """The rows of the table: (operation, file, function)."""
    text = (ROOT / "docs" / "gpu.md").read_text()
    rows = re.findall(r"^\| `([\w/]+\.py)` `([\w.]+)` \| ([\w ]+?) \|", text, flags=re.MULTILINE)
    return {(operation, file, function) for file, function, operation in rows}


@pytest.mark.parametrize("name", CASES)
def test_a_step_on_the_watched_device_is_that_on_the_cpu(steps, name):
    losses, on_cpu, _ = steps[name]
    assert_close(losses, on_cpu)


@pytest.mark.parametrize("name", CASES)
def test_a_step_waits_for_nothing_that_is_not_documented(steps, name):
    waits = set(steps[name][2])
    assert waits <= documented(), sorted(waits - documented())


def test_everything_that_is_documented_waits(steps):
    seen = {wait for _, _, waits in steps.values() for wait in waits}
    assert documented() <= seen, sorted(documented() - seen)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("labels", torch.tensor([0, 99]), "labels must be in 0"),
        ("boxes", torch.tensor([[3.0, 3, 3, 9]] * 2), "x1 < x2"),
    ],
)
def test_wrong_targets_are_refused_by_an_assertion_on_the_device(name, values, message):
    model, images, targets = two_stage_detector("cross-entropy")
    targets[1][name] = values
    with watched() as waits, pytest.raises(RuntimeError, match=message):
        to_device(model)(to_device(images), to_device(targets))
    assert waits == []


@pytest.mark.parametrize("name", ["classifier", "segmenter", "tiled segmenter"])
def test_classifiers_and_segmenters_wait_for_nothing(steps, name):
    assert steps[name][2] == []


@pytest.mark.parametrize(
    ("read", "operation"),
    {
        "item": (lambda x: x.sum().item(), "item"),
        "bool": (lambda x: bool(x.any()), "item"),
        "list": (lambda x: x.tolist(), "copy to the host"),
        "chosen": (lambda x: x[x > 1], "boolean index"),
        "filled": (lambda x: x.clone().index_put_((x > 1,), x[:2]), "boolean index"),
        "indices": (lambda x: x.nonzero(), "nonzero"),
        "constant": (lambda x: x.new_tensor([1.0]), "copy to the device"),
        "made": (lambda x: torch.tensor(1.0, device=x.device), "copy to the device"),
    }.values(),
)
def test_the_watch_sees_what_waits(read, operation):
    with watched() as waits:
        read(to_device(torch.arange(4.0)))
    assert [wait.operation for wait in waits] == [operation]


def test_the_watch_lets_pass_what_does_not_wait():
    with watched() as waits:
        values = to_device(torch.arange(4.0))
        values[torch.zeros(2, dtype=torch.int64, device=DEVICE)] += torch.ones(2, device=DEVICE)
        assert values.masked_fill_(values > 2, 0).sum().shape == ()
    assert waits == []
