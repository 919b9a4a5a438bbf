import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.models.backbones.small_encoder import SmallEncoder
from equigrad.models.deployment.segmenter import DeployedSegmenter, GridAverage, PaddedMaxPool
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead
from equigrad.models.segmentation.pspnet import PSPHead
from equigrad.models.segmentation.segmenter import build_segmenter
from equigrad.models.segmentation.sliding_window import Scale, SlidingWindow, WholeImage
from models.deployment.spread_weights import spread_weights

HEADS = {"psp": partial(PSPHead, channels=8), "deeplab": partial(DeepLabV3PlusHead, channels=8)}
INFERENCES = {
    "whole": WholeImage(),
    "scaled": WholeImage(Scale(40, 70)),
    "windows": SlidingWindow(32, 20),
    "scaled windows": SlidingWindow(32, 20, averages_scores=True, scale=Scale(40, 70)),
}


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("head", HEADS)
@torch.no_grad()
def test_label_maps_are_those_of_the_model(head, inference):
    torch.manual_seed(0)
    loss, other = equigrad.SoftmaxEqualizationLoss(5), equigrad.CrossEntropyLoss()
    scores = equigrad.SoftmaxScores()
    settings = {"auxiliary_loss": other, "inference": INFERENCES[inference]}
    model = build_segmenter(SmallEncoder(), HEADS[head], 5, loss, scores, **settings).eval()
    spread_weights(model)
    deployed = DeployedSegmenter(copy.deepcopy(model)).eval()
    for size in ((53, 64), (90, 37)):
        images = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8)
        expected, (labels, scores) = model(images), deployed(images)
        assert_close(scores, torch.stack([one["scores"] for one in expected]), rtol=1e-5, atol=1e-6)
        assert (labels != torch.stack([one["labels"] for one in expected])).double().mean() < 0.001
        assert len(labels.unique()) > 1
    assert not [name for name in deployed.state_dict() if "loss" in name or "auxiliary" in name]


@pytest.mark.parametrize("grid", [1, 2, 3, 6])
def test_averages_over_a_grid_are_those_of_adaptive_pooling(grid):
    maps = torch.randn(2, 3, 7, 10, dtype=torch.float64)
    assert_close(GridAverage(grid)(maps), nn.AdaptiveAvgPool2d(grid)(maps))


@pytest.mark.parametrize("size", [2, 3])
def test_maxima_of_windows_that_pass_the_border_are_those_of_ceil_mode(size):
    maps = -torch.rand(2, 3, 7, 10)  # a padding by zeros would win
    assert PaddedMaxPool(size)(maps).equal(nn.MaxPool2d(size, ceil_mode=True)(maps))
