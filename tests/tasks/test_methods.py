"""What a method says about the run, and what its second stage and its classifier make of a model."""

import inspect
from dataclasses import fields
from typing import get_args

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad import decoupling
from equigrad.models.classification.classifier import build_classifier
from equigrad.models.classification.cosine_classifier import CosineClassifier
from equigrad.models.detection.two_stage.roi_head import RoIClassifier
from equigrad.tasks.losses import BalancedSoftmax, CrossEntropy, DenseLoss, Distillation, Eqfl, Evfl, QualityFocal
from equigrad.tasks.methods import (
    Align,
    CosineLayer,
    DenseMethod,
    LearnScales,
    LinearClassifier,
    Method,
    RetrainClassifier,
    RoIMethod,
)
from equigrad.tasks.scores import Softmax, SoftmaxBackground


class Backbone(nn.Sequential):
    """Four features, after a batch norm."""

    num_features = 4

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(3, 4), nn.BatchNorm1d(4))


@pytest.fixture
def model():
    return build_classifier(Backbone(), 5, equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores())


def trained(model):
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


def test_cross_entropy_alone_is_read_by_a_softmax_in_random_order_and_starts_from_scratch():
    method = Method(CrossEntropy())
    assert (method.scores, method.sampler, method.bias_prior) == (Softmax(), "random", None)
    assert not method.distils
    assert not method.needs_init


@pytest.mark.parametrize("stage", [RetrainClassifier(), LearnScales(), Align()])
def test_a_second_stage_needs_a_finished_run_that_is_no_teacher(stage):
    method = Method(CrossEntropy(), second_stage=stage)
    assert method.needs_init
    assert not method.distils


def test_a_distillation_needs_a_finished_run_as_its_teacher():
    method = Method(Distillation(BalancedSoftmax()))
    assert method.needs_init
    assert method.distils


def test_retraining_starts_the_classifier_anew_and_freezes_the_rest(model):
    before = model.classifier.weight.clone()
    features = model.backbone[1].weight.clone()
    RetrainClassifier().change(model)
    assert trained(model) == {"classifier.weight", "classifier.bias"}
    assert not torch.equal(model.classifier.weight, before)
    assert torch.equal(model.backbone[1].weight, features)


def test_scales_and_corrections_begin_with_the_answers_of_the_first_stage(model):
    model.eval()
    images = torch.randn(6, 3, 1, 1)
    before = model.logits(images)
    LearnScales().change(model)
    assert trained(model) == {"classifier.scale"}
    assert_close(model.logits(images), before)


def test_alignment_learns_scales_shifts_and_a_confidence_on_a_frozen_classifier(model):
    weight = model.classifier.weight
    Align().change(model)
    assert isinstance(model.classifier, decoupling.AlignedClassifier)
    assert model.classifier.classifier.weight is weight
    assert trained(model)
    assert all(name.startswith("classifier.") for name in trained(model))
    assert not weight.requires_grad


@pytest.mark.parametrize("stage", [RetrainClassifier, LearnScales])
@pytest.mark.parametrize("mode", ["moving", "frozen"])
def test_batch_norms_of_the_frozen_part_follow_the_data_only_if_asked_to(model, stage, mode):
    stage(batch_norm=mode).change(model)
    model.train()
    model.logits(10 + torch.randn(8, 3, 1, 1))
    moved = bool(model.backbone[2].num_batches_tracked)
    assert moved == (mode == "moving")
    assert stage().batch_norm == "moving"  # as published


def test_only_quality_losses_take_the_iou_of_the_positives():
    with_quality = {kind for kind in get_args(DenseLoss) if DenseMethod(kind()).with_quality}
    assert with_quality == {Eqfl, Evfl, QualityFocal}


def test_a_linear_classifier_starts_at_its_prior():
    layer = LinearClassifier(0.001)(6, 4)
    assert type(layer) is RoIClassifier
    assert layer.weight.shape == (4, 6)
    assert_close(layer.bias.sigmoid(), torch.full((4,), 0.001))
    assert torch.equal(LinearClassifier()(6, 4).bias, torch.zeros(4))


def test_a_cosine_layer_is_the_cosine_classifier_with_its_settings():
    parameters = inspect.signature(CosineClassifier).parameters
    assert {field.name: field.default for field in fields(CosineLayer)} == {
        name: parameters[name].default for name in ("temperature", "bias", "norm_offset")
    }
    layer = CosineLayer(temperature=20.0, bias=True, norm_offset=1e-6)(6, 4)
    assert (layer.temperature, layer.norm_offset, layer.in_features, layer.out_features) == (20.0, 1e-6, 6, 4)
    assert layer.bias is not None
    assert CosineLayer()(6, 4).bias is None


def test_a_roi_method_has_a_linear_classifier_and_neither_background_column_nor_division_unless_it_says_so():
    method = RoIMethod(CrossEntropy(), SoftmaxBackground())
    assert method.classifier == LinearClassifier(prior=None)
    assert (method.has_background_column, method.divide_by_rois) == (False, False)
