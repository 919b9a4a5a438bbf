"""Second stages of a small Mask R-CNN: what they keep of a first stage, and what they train."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.models.rcnn_cases import make_batch, small_pyramid
from torch.testing import assert_close

from equigrad.models.detection.two_stage.second_stages import CLASSIFIER
from equigrad.recipes.methods.two_stage import BAGS, BCE_OBJECTNESS, CE, SIGMOID_EQL
from equigrad.tasks.detection.detectors import RCNN
from equigrad.tasks.detection.second_stages import NewClassifier, NewScales
from equigrad.tasks.losses import CategoryCounts

COUNTS = CategoryCounts(np.array([1, 8, 20, 300, 40]), np.array([1, 50, 60, 5000, 70]))
SMALL = RCNN(with_masks=True, num_features=16, num_mask_channels=8, num_proposals=20)


def make_model(method, seed=0, detector=SMALL, counts=COUNTS):
    torch.manual_seed(seed)
    return detector.build(small_pyramid(seed), method, counts)


def test_a_new_classifier_takes_the_rest_of_a_first_stage_with_another_loss():
    first = make_model(SIGMOID_EQL, seed=1)
    for method in (CE, BAGS):
        model = make_model(method)
        NewClassifier().load(model, first.state_dict())
        NewClassifier().change(model)
        assert torch.equal(model.roi_heads.box_head.fc6.weight, first.roi_heads.box_head.fc6.weight)
        trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
        assert trained == {f"{CLASSIFIER}.weight", f"{CLASSIFIER}.bias"}


@pytest.mark.parametrize(("first", "second"), [(CE, CE), (SIGMOID_EQL, BCE_OBJECTNESS)])
def test_scales_start_where_the_first_stage_ended(first, second):
    trained, model = make_model(first, seed=1), make_model(second)
    NewScales().load(model, trained.state_dict())
    NewScales().change(model)
    assert [name for name, weight in model.named_parameters() if weight.requires_grad] == [f"{CLASSIFIER}.scale"]
    images, targets = make_batch()
    with torch.no_grad():
        before, after = (each.eval()(images, targets)[0]["scores"] for each in (trained, model))
    assert_close(after, before)


@pytest.mark.parametrize(("first", "second"), [(SIGMOID_EQL, CE), (CE, BCE_OBJECTNESS)])
def test_scales_refuse_the_classifier_of_another_loss(first, second):
    model = make_model(second)
    with pytest.raises(ValueError, match=r"both stages need the same loss: .* has no roi_heads.classification_loss"):
        NewScales().load(model, make_model(first).state_dict())


def test_a_new_classifier_is_drawn_anew_even_with_the_loss_of_the_first_stage():
    first, model = make_model(CE, seed=1), make_model(CE)
    NewClassifier().load(model, first.state_dict())
    NewClassifier().change(model)
    classifier, old = model.get_submodule(CLASSIFIER), first.get_submodule(CLASSIFIER)
    assert not torch.equal(classifier.weight, old.weight)
    assert torch.equal(classifier.bias, torch.zeros(6))  # five categories and background


def test_a_first_stage_without_masks_or_of_another_width_is_refused_by_a_new_classifier():
    boxes_only, wide = replace(SMALL, with_masks=False), replace(SMALL, num_features=24)
    with pytest.raises(ValueError, match=r"the first stage has no weight roi_heads\.mask"):
        NewClassifier().load(make_model(CE), make_model(CE, detector=boxes_only).state_dict())
    with pytest.raises(ValueError, match=r"the first stage has an unknown weight roi_heads\.mask"):
        NewClassifier().load(make_model(CE, detector=boxes_only), make_model(CE).state_dict())
    with pytest.raises(ValueError, match=r"weight roi_heads\.box_head.* must be \(16, .*, got \(24, "):
        NewClassifier().load(make_model(CE), make_model(CE, detector=wide).state_dict())


@pytest.mark.parametrize(("stage", "first"), [(NewClassifier(), CE), (NewScales(), SIGMOID_EQL)])
def test_a_refused_first_stage_leaves_the_model_as_it_was(stage, first):
    model = make_model(CE)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    three = CategoryCounts(np.array([3, 2, 1]), np.array([3, 2, 1]))
    with pytest.raises(ValueError, match=r"first stage|both stages"):
        stage.load(model, make_model(first, seed=1, counts=three).state_dict())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_bias_and_the_background_are_not_scaled():
    model = make_model(CE)
    NewScales().change(model)
    classifier = model.get_submodule(CLASSIFIER)
    features = torch.randn(3, 16)
    torch.nn.init.normal_(classifier.classifier.bias)
    before = classifier(features)
    classifier.scale.data.fill_(2.0)
    bias = classifier.classifier.bias
    assert_close(classifier(features)[:, :5] - bias[:5], 2 * (before[:, :5] - bias[:5]))
    assert_close(classifier(features)[:, 5], before[:, 5])
