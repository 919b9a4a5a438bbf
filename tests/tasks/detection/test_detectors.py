"""Each detector dataclass against the function that it calls."""

import inspect
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import equigrad
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.paa import paa
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.two_stage.rcnn import faster_rcnn
from equigrad.models.detection.two_stage.roi_pooling import AlignedRoIPool
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.models.detection.two_stage.second_stages import CLASSIFIER
from equigrad.recipes.methods import one_stage, two_stage
from equigrad.tasks.detection import detectors
from equigrad.tasks.detection.detectors import RCNN, ImprovedAtss, OneStageDetector, Yolox, YoloxStar
from equigrad.tasks.losses import CategoryCounts
from models.small_detectors import TinyPyramid, batch

COUNTS = CategoryCounts(np.array([50, 20, 3, 1]), np.array([100, 40, 6, 2]))
FUNCTIONS = {
    detectors.RetinaNet: retinanet,
    detectors.Fcos: fcos,
    detectors.Paa: paa,
    detectors.Atss: atss,
    detectors.ImprovedAtss: improved_atss,
    detectors.Yolox: yolox,
    detectors.YoloxStar: yolox_star,
}
EFL, EQFL = one_stage.METHODS["efl"], one_stage.METHODS["eqfl"]


# FCOS has a range of box sizes for each of five levels.
def pyramid(kind=None):
    return TinyPyramid(strides=(8, 16, 32, 64, 128)) if kind is detectors.Fcos else TinyPyramid()


def built(settings, method=EFL):
    return settings.build(pyramid(type(settings)), method, COUNTS)


def biases_of_logits(model):
    head = model.head
    layers = [level.logits for level in head.levels] if hasattr(head, "levels") else [head.logits]
    return torch.cat([layer.bias for layer in layers])


def test_every_one_stage_detector_is_compared_here():
    assert set(get_args(OneStageDetector)) == set(FUNCTIONS)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_fields_have_the_defaults_of_the_function(kind):
    parameters = inspect.signature(FUNCTIONS[kind]).parameters
    assert {field.name: field.default for field in fields(kind)} == {
        field.name: parameters[field.name].default for field in fields(kind)
    }


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_detector_is_what_its_function_builds_for_the_categories(kind):
    model = built(kind())
    expected = FUNCTIONS[kind](
        pyramid(kind), 4, equigrad.EqualizedFocalLoss(4), equigrad.SigmoidScores(), with_quality=False
    )
    assert repr(model) == repr(expected)
    assert type(model.assigner) is type(expected.assigner)
    assert model.state_dict().keys() == expected.state_dict().keys()


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("prior", [None, 0.2])
def test_every_sigmoid_starts_at_the_prior_of_the_settings(kind, prior):
    settings = kind() if prior is None else kind(prior=prior)
    biases = biases_of_logits(built(settings))
    assert_close(biases.sigmoid(), torch.full_like(biases, settings.prior))


def test_the_papers_detectors_start_at_its_prior_and_the_others_at_that_of_retinanet():
    of_the_paper = {kind for kind in FUNCTIONS if kind().prior == 0.001}
    assert of_the_paper == {ImprovedAtss, YoloxStar}
    assert {kind().prior for kind in FUNCTIONS} == {0.001, 0.01}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize(("method", "with_quality"), [(EFL, False), (EQFL, True)])
def test_a_loss_gets_the_iou_of_the_positives_if_it_takes_it(kind, method, with_quality):
    model = built(kind(), method)
    assert model.with_quality == with_quality
    assert type(model.classification_loss) is type(method.loss.build(COUNTS))


@pytest.mark.parametrize("kind", [ImprovedAtss, YoloxStar])
def test_there_is_an_anchor_for_each_scale(kind):
    assert built(kind()).grid.num_anchors == 2
    three = built(kind(scales=(2.0, 3.0, 4.0)))
    assert three.grid.num_anchors == 3
    losses = three(*batch())
    assert all(loss.isfinite() for loss in losses.values())


def test_the_first_epoch_with_l1_is_passed_on():
    assert [built(Yolox(first_l1_epoch=epoch)).box_losses["l1"].first_epoch for epoch in (285, 3)] == [285, 3]


def small_rcnn(method=two_stage.METHODS["ce"], **settings):
    return RCNN(num_features=16, **settings).build(TinyPyramid(), method, COUNTS)


def test_fields_of_rcnn_have_the_defaults_of_faster_rcnn():
    parameters = inspect.signature(faster_rcnn).parameters
    for field in fields(RCNN):
        if field.name != "rois":
            assert field.default == parameters[field.name].default, field.name
    # None stands for the sampler with its own defaults.
    assert RCNN().rois == RoISampler()
    assert parameters["sampler"].default is None


def test_masks_are_a_branch_that_only_mask_rcnn_has():
    plain, with_masks = (small_rcnn(with_masks=each, num_mask_channels=8) for each in (False, True))
    added = with_masks.state_dict().keys() - plain.state_dict().keys()
    assert added
    assert all(name.startswith("roi_heads.mask") for name in added)
    assert not plain.state_dict().keys() - with_masks.state_dict().keys()


def test_class_agnostic_boxes_are_one_for_all_categories():
    for class_agnostic, num_boxes in ((False, 4), (True, 1)):
        predictor = small_rcnn(class_agnostic=class_agnostic).roi_heads.box_predictor
        assert predictor.bbox_pred.out_features == 4 * num_boxes


@pytest.mark.parametrize("name", two_stage.METHODS)
def test_a_classifier_has_the_columns_and_the_prior_of_its_method(name):
    method = two_stage.METHODS[name]
    model = small_rcnn(method)
    layer = model.get_submodule(CLASSIFIER)
    assert layer.out_features == method.scores.build(COUNTS).num_logits(4)
    prior = getattr(method.classifier, "prior", None)  # a cosine classifier has none
    expected = 0.5 if prior is None else prior  # a bias of 0
    assert_close(layer.bias.sigmoid(), torch.full_like(layer.bias, expected))
    assert model.roi_heads.background_column == (4 if method.has_background_column else None)
    assert model.roi_heads.divide_by_rois == method.divide_by_rois


def test_boxes_are_learnt_by_the_loss_and_pooled_by_the_alignment_that_are_set():
    plain, released = small_rcnn(), small_rcnn(aligned=True, box_loss="l1", with_masks=True, num_mask_channels=8)
    assert (plain.roi_heads.box_beta, plain.rpn.box_beta) == (1 / 9, 1 / 9)
    assert (released.roi_heads.box_beta, released.rpn.box_beta) == (0, 0)
    assert not isinstance(plain.roi_heads.box_roi_pool, AlignedRoIPool)
    assert isinstance(released.roi_heads.box_roi_pool, AlignedRoIPool)
    assert isinstance(released.roi_heads.mask_branch.roi_pool, AlignedRoIPool)


def test_rois_proposals_and_anchors_are_as_set():
    model = small_rcnn(rois=RoISampler(32, positive_fraction=0.5), num_proposals=20, anchor_scale=4, sampling_ratio=1)
    assert model.roi_heads.sampler == RoISampler(32, positive_fraction=0.5)
    assert model.rpn.anchor_generator.sizes == ((32,), (64,), (128,))  # four strides
    assert model.roi_heads.box_roi_pool.sampling_ratio == 1
    assert model.rpn.post_nms_top_n() == 20
    assert model.eval().rpn.post_nms_top_n() == 20
