import pytest
import torch
from torch.testing import assert_close

from equigrad.models.detection.one_stage.head import DenseHead
from equigrad.models.detection.one_stage.yolox_head import DecoupledHead

MAPS = [torch.randn(2, 32, 6, 8), torch.randn(2, 32, 3, 4)]


@pytest.mark.parametrize(
    "head",
    [DenseHead(32, 5, 3, num_levels=2, with_quality=True), DecoupledHead(32, 5, 3, num_levels=2)],
    ids=["shared", "decoupled"],
)
def test_shapes_of_the_outputs(head):
    for maps, output in zip(MAPS, head(MAPS), strict=True):
        size = maps.shape[2:]
        assert output.logits.shape == (2, 15, *size)
        assert output.boxes.shape == (2, 12, *size)
        assert output.quality.shape == (2, 3, *size)


def test_towers_are_shared_by_the_levels_of_a_dense_head():
    head = DenseHead(32, 5)
    swapped = head(MAPS[::-1])
    for output, other in zip(head(MAPS), swapped[::-1], strict=True):
        assert_close(output.logits, other.logits)
        assert output.quality is None


def test_each_level_has_its_own_factor_of_boxes():
    head = DenseHead(32, 5, num_levels=2, with_scales=True)
    before = head(MAPS)
    head.scales.data[1] = 3.0
    after = head(MAPS)
    assert_close(after[0].boxes, before[0].boxes)
    assert_close(after[1].boxes, 3 * before[1].boxes)


def test_distances_are_not_negative():
    outputs = DenseHead(32, 5, with_distances=True)(MAPS)
    assert all((output.boxes >= 0).all() for output in outputs)
    assert any((output.boxes > 0).any() for output in outputs)


def test_categories_start_at_the_prior():
    outputs = DenseHead(32, 5, prior=0.02)([torch.zeros(1, 32, 2, 2)])
    assert_close(outputs[0].logits.sigmoid(), torch.full((1, 5, 2, 2), 0.02))


def test_a_pyramid_of_few_channels_has_fewer_groups():
    head = DenseHead(48, 5)
    norms = [module for module in head.modules() if isinstance(module, torch.nn.GroupNorm)]
    assert len(norms) == 8
    assert {norm.num_groups for norm in norms} == {16}
    assert {norm.num_groups for norm in DenseHead(256, 5).modules() if isinstance(norm, torch.nn.GroupNorm)} == {32}
