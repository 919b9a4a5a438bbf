import pytest
import torch

import equigrad
from equigrad.models.deployment.dense_detector import DeployedDenseDetector
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.paa import paa
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from models.deployment.spread_weights import assert_same_detections, spread_weights

NUM_CLASSES = 7
SIZES = [(90, 120), (96, 101), (64, 128)]


@pytest.mark.parametrize(
    "build", [atss, improved_atss, retinanet, fcos, paa, yolox, yolox_star], ids=lambda build: build.__name__
)
def test_a_batch_has_the_detections_of_its_images(build):
    torch.manual_seed(0)
    pyramid = SmallFPN(8, num_channels=32, strides=(8, 16, 32))
    model = build(pyramid, NUM_CLASSES, equigrad.EqualizedFocalLoss(NUM_CLASSES), equigrad.SigmoidScores()).eval()
    spread_weights(model)
    check(model)


def test_boxes_that_end_on_the_last_pixel_keep_doing_so():
    torch.manual_seed(0)
    pyramid = SmallFPN(8, num_channels=32, strides=(8, 16))
    loss, scores = equigrad.FocalLoss(), equigrad.SigmoidScores()
    model = improved_atss(pyramid, NUM_CLASSES, loss, scores, legacy_pixels=True).eval()
    spread_weights(model)
    check(model)


@torch.no_grad()
def check(model):
    deployed = DeployedDenseDetector(model, NUM_CLASSES).eval()
    images = torch.randint(0, 256, (len(SIZES), 3, 96, 128), dtype=torch.uint8)
    expected = model(images, [{"image_size": size} for size in SIZES])
    assert_same_detections(expected, deployed(images, torch.tensor(SIZES)))
    assert not [name for name in deployed.state_dict() if "loss" in name or "statistics" in name]
