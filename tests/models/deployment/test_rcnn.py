import pytest
import torch
from torch import nn

import equigrad
from equigrad.models.deployment.rcnn import DeployedRCNN
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.two_stage.rcnn import faster_rcnn
from models.deployment.spread_weights import assert_same_detections, spread_weights

NUM_CLASSES = 5
# 96 / 32 is odd: the coarsest map of 160 pixels is rounded up, and torchvision's stride with it.
SIZES = [(160, 96), (150, 90)]


@pytest.mark.parametrize("with_masks", [False, True])
@pytest.mark.parametrize("class_agnostic", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@torch.no_grad()
def test_a_batch_has_the_detections_of_its_images(with_masks, class_agnostic, aligned):
    torch.manual_seed(1)
    check_deployed(SmallFPN(8, num_channels=16, strides=(4, 8, 16, 32, 64)), with_masks, class_agnostic, aligned)


@torch.no_grad()
def test_so_it_has_where_rois_are_classified_by_imagenet_features_too():
    torch.manual_seed(1)
    pyramid = LiteFPN(num_channels=16, extra="pool", imagenet_features=True)
    check_deployed(pyramid, with_masks=True, class_agnostic=True, aligned=False)


@torch.no_grad()
def test_of_boxes_with_equal_scores_the_same_survive():
    torch.manual_seed(1)
    pyramid = SmallFPN(8, num_channels=16, strides=(4, 8, 16, 32, 64))
    check_deployed(pyramid, False, True, False, change=lambda model: nn.init.zeros_(classifier(model).weight))


def classifier(model):
    return model.roi_heads.box_predictor.cls_score


def check_deployed(pyramid, with_masks, class_agnostic, aligned, change=lambda model: None):
    model = faster_rcnn(
        pyramid,
        NUM_CLASSES,
        equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(NUM_CLASSES)),
        equigrad.SigmoidObjectnessScores(),
        with_masks=with_masks,
        class_agnostic=class_agnostic,
        aligned=aligned,
        num_features=32,
        num_mask_channels=16,
        num_proposals=50,
    ).eval()
    spread_weights(model)
    change(model)
    images = torch.randint(0, 256, (len(SIZES), 3, *SIZES[0]), dtype=torch.uint8)
    deployed = DeployedRCNN(model).eval()
    outputs = deployed(images, torch.tensor(SIZES))
    assert len(outputs) == 3 + with_masks
    assert_same_detections(model(images, [{"image_size": size} for size in SIZES]), outputs)
    assert not [name for name in deployed.state_dict() if "loss" in name or "statistics" in name]
