import numpy as np
import pytest
import torch
from tests.models.rcnn_cases import make_batch, small_pyramid
from torch.testing import assert_close

import equigrad
from equigrad.models.detection.two_stage.second_stages import CLASSIFIER
from equigrad.recipes.methods import two_stage
from equigrad.recipes.methods.two_stage import (
    BAGS,
    CE,
    NORCAL,
    SEESAW_COSINE,
    SOFTMAX_EQL_COSINE,
    gradient_blocking,
)
from equigrad.settings import override
from equigrad.tasks.detection.detectors import RCNN
from equigrad.tasks.losses import CategoryCounts, GradientBlocking

IMAGE_COUNTS, INSTANCE_COUNTS = [1, 8, 20, 300, 40], [1, 50, 60, 5000, 70]
COUNTS = CategoryCounts(np.array(IMAGE_COUNTS, np.int64), np.array(INSTANCE_COUNTS, np.int64))
SMALL = RCNN(with_masks=True, num_features=16, num_mask_channels=8, num_proposals=20)
METHODS = {
    **two_stage.METHODS,
    "seesaw_cosine": SEESAW_COSINE,
    "softmax_eql_cosine": SOFTMAX_EQL_COSINE,
    "grad_blocking": gradient_blocking(GradientBlocking(threshold=10)),
}


def make_model(method, seed=0):
    torch.manual_seed(seed)
    return SMALL.build(small_pyramid(seed), method, COUNTS)


@pytest.mark.parametrize("name", METHODS)
def test_a_detector_with_any_method_learns_and_detects(name):
    model = make_model(METHODS[name])
    losses = model(*make_batch())
    sum(losses.values()).backward()
    assert model.get_submodule(CLASSIFIER).weight.grad.abs().sum() > 0
    assert set(losses) == {"classification", "box", "mask", "rpn_objectness", "rpn_box"}
    with torch.no_grad():
        found = model.eval()(*make_batch())[0]
    assert found["labels"].numel() == 0 or int(found["labels"].max()) < 5


def test_bags_groups_by_objects():
    assert BAGS.loss.build(COUNTS).layout.group.tolist() == [0, 1, 1, 2, 1]
    assert BAGS.scores.build(COUNTS).layout.group.tolist() == [0, 1, 1, 2, 1]


def test_grad_blocking_counts_images_or_objects():
    assert GradientBlocking(threshold=20).build(COUNTS).kept.tolist() == [0, 0, 1, 1, 1]
    assert GradientBlocking(threshold=65, count_by="instances").build(COUNTS).kept.tolist() == [0, 0, 0, 1, 1]


def test_sigmoids_start_at_the_published_prior():
    for name in ("bce", "sigmoid_eql", "grad_blocking"):
        bias = make_model(METHODS[name]).get_submodule(CLASSIFIER).bias
        assert_close(bias.sigmoid(), torch.full_like(bias, 0.001))


def test_norcal_calibrates_the_scores_of_a_softmax_with_image_counts():
    logits = torch.randn(7, 6)
    expected = equigrad.calibration.norcal(logits, IMAGE_COUNTS, power=0.6)[:, :-1]
    assert_close(NORCAL.scores.build(COUNTS)(logits), expected)
    assert NORCAL.loss == CE.loss


def test_the_power_of_norcal_can_be_set():
    changed = override(NORCAL, ["scores.power=0.2"])
    assert changed.scores.power == 0.2
    logits = torch.randn(7, 6)
    assert not torch.equal(changed.scores.build(COUNTS)(logits), NORCAL.scores.build(COUNTS)(logits))
