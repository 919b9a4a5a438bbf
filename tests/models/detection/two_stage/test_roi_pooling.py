"""Pooling with aligned pixels against torchvision's own operator, level by level."""

import pytest
import torch
from torch.testing import assert_close
from torchvision.ops import MultiScaleRoIAlign, roi_align

from equigrad.models.detection.two_stage.roi_pooling import AlignedRoIPool, roi_pool

SIZES = [(128, 160), (128, 160)]


def make_features(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return {
        str(level): torch.randn(2, 3, 128 >> level + 2, 160 >> level + 2, generator=generator, dtype=dtype)
        for level in range(4)
    }


def make_rois(num_rois, largest, seed=0):
    generator = torch.Generator().manual_seed(seed)
    start = torch.rand(num_rois, 2, generator=generator, dtype=torch.float64) * 40
    sides = largest ** torch.rand(num_rois, 2, generator=generator, dtype=torch.float64)
    return torch.cat([start, start + sides], 1)


def test_small_rois_are_pooled_from_the_finest_level_with_aligned_pixels():
    features, rois = make_features(), [make_rois(5, 50), make_rois(3, 50, seed=1)]
    pooled = AlignedRoIPool(["0", "1", "2", "3"], 7, 2)(features, rois, SIZES)
    assert_close(pooled, roi_align(features["0"], rois, 7, 1 / 4, 2, aligned=True))


def test_every_roi_has_the_level_that_torchvision_gives_it():
    # On features that are the number of their level, alignment makes no difference.
    features = {name: torch.full_like(each, float(name)) for name, each in make_features().items()}
    large = torch.tensor([[0.0, 0.0, side, side] for side in (30, 111, 112, 113, 223, 224, 225, 448, 900)])
    rois = [large.double() / 8, large.double()]
    theirs = MultiScaleRoIAlign(["0", "1", "2", "3"], 1, 2)(features, rois, SIZES)
    ours = AlignedRoIPool(["0", "1", "2", "3"], 1, 2)(features, rois, SIZES)
    inside = theirs[:, 0, 0, 0].round() == theirs[:, 0, 0, 0]  # those that do not reach beyond the map
    assert inside.sum() >= 12
    assert_close(ours[inside], theirs[inside])


def test_gradients_reach_the_features_and_no_roi_is_no_trouble():
    features = {name: each.requires_grad_() for name, each in make_features().items()}
    pool = AlignedRoIPool(["0", "1", "2", "3"], 2, 2)
    assert pool(features, [torch.zeros(0, 4, dtype=torch.float64)] * 2, SIZES).shape == (0, 3, 2, 2)
    pool(features, [make_rois(4, 20), make_rois(2, 20)], SIZES).sum().backward()
    assert features["0"].grad.abs().sum() > 0


@pytest.mark.parametrize(("aligned", "kind"), [(True, AlignedRoIPool), (False, MultiScaleRoIAlign)])
def test_without_alignment_it_is_torchvisions_pooling(aligned, kind):
    assert isinstance(roi_pool(["0"], 7, 2, aligned=aligned), kind)
