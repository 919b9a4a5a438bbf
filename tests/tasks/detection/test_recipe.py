import json
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest

from equigrad.engine import SGD, MultiStep, Schedule, TrainSettings
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes.methods import one_stage, two_stage
from equigrad.settings import from_json, override, to_json
from equigrad.tasks.backbones import ResNetPyramid, SmallPyramid
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.detection.detectors import RCNN, ImprovedAtss, RetinaNet
from equigrad.tasks.detection.predictor import ShownObjects
from equigrad.tasks.detection.preprocessing import Mosaics, ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.detection.second_stages import NewClassifier, NewScales
from equigrad.tasks.run_folder import Recipe

TRAINING = TrainSettings(SGD(lr=0.3), Schedule(steps=7, decay=MultiStep((3, 5), unit="steps")), batch_size=5)
RECIPE = DetectionRecipe(
    data=CocoFiles(
        Path("a.json"), None, Path("photos.zip"), Path("others"), test_share=0.3, keep_empty=False, benchmark="lvis"
    ),
    preprocessing=Mosaics(320, (256, 320), num_strong_epochs=7, mixup=False),
    backbone=ResNetPyramid(101, "mine.pth", extra="pool", extra_relu=False, norm_eps=0.0, fpn_batch_norm=True),
    detector=RCNN(
        with_masks=True,
        class_agnostic=True,
        num_features=64,
        num_mask_channels=32,
        sampling_ratio=1,
        aligned=True,
        box_loss="l1",
        anchor_scale=4,
        num_proposals=100,
        rois=RoISampler(128, 0.5, 0.6),
        version=2,
    ),
    method=two_stage.SEESAW_COSINE,
    training=TRAINING,
    sampler="class_balanced",
    repeat_threshold=0.01,
    second_stage=NewScales(),
    init=Path("runs/first"),
    check_images=7,
    test_batch_size=4,
    precision="bf16",
    device="cpu",
    shown=ShownObjects(0.5, 7),
    table="a table",
    row="a row",
)
ONE_STAGE = DetectionRecipe(
    CocoFiles(), ShorterSide(), SmallPyramid(), ImprovedAtss(), one_stage.METHODS["efl"], TRAINING
)


def test_a_value_in_every_field_that_is_not_the_default_survives_json():
    for field in fields(RECIPE):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        assert getattr(RECIPE, field.name) != default
    assert from_json(Recipe, json.loads(json.dumps(to_json(RECIPE)))) == RECIPE


def test_a_recipe_starts_from_the_backbone_and_tests_one_image_at_a_time_unless_it_says_so():
    assert (ONE_STAGE.second_stage, ONE_STAGE.init, ONE_STAGE.test_batch_size) == (None, None, 1)
    assert (ONE_STAGE.sampler, ONE_STAGE.repeat_threshold, ONE_STAGE.shown) == ("random", 0.001, ShownObjects())


@pytest.mark.parametrize("detector", [ImprovedAtss(), RetinaNet()])
def test_a_one_stage_detector_refuses_a_method_of_proposals(detector):
    name = type(detector).__name__
    with pytest.raises(ValueError, match=f"{name} takes a DenseMethod, got a RoIMethod"):
        replace(RECIPE, detector=detector)


def test_a_two_stage_detector_refuses_a_method_of_anchors():
    with pytest.raises(ValueError, match="RCNN takes a RoIMethod, got a DenseMethod"):
        replace(ONE_STAGE, detector=RCNN())


def test_any_recipe_may_start_from_a_run_or_file():
    assert override(ONE_STAGE, ["init=runs/first"]).init == Path("runs/first")


def test_a_second_stage_may_be_told_its_run_later():
    later = replace(RECIPE, second_stage=NewClassifier(), init=None)
    assert override(later, ["init=runs/first"]).init == Path("runs/first")


def test_detector_and_method_are_exchanged_together_but_not_alone():
    both = replace(ONE_STAGE, detector=RECIPE.detector, method=RECIPE.method)
    assert (both.detector, both.method) == (RECIPE.detector, RECIPE.method)
    with pytest.raises(ValueError, match="takes a DenseMethod"):
        override(RECIPE, ["detector=RetinaNet"])


def test_only_mask_rcnn_has_masks():
    assert RECIPE.with_masks
    assert not override(RECIPE, ["detector.with_masks=false"]).with_masks
    assert not ONE_STAGE.with_masks


def test_a_damaged_file_cannot_bring_together_what_does_not_fit():
    content = to_json(RECIPE) | {"detector": to_json(RetinaNet())}
    with pytest.raises(ValueError, match="RetinaNet takes a DenseMethod, got a RoIMethod"):
        from_json(Recipe, content)
