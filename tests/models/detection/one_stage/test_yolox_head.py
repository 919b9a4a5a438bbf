import torch
from torch.testing import assert_close

from equigrad.models.detection.one_stage.yolox_head import DecoupledHead

SIZES = ((8, 12), (4, 6), (2, 3))


def maps(num_images=2):
    return [torch.randn(num_images, 8, *size) for size in SIZES]


def test_every_level_has_logits_boxes_and_quality_of_all_anchors():
    outputs = DecoupledHead(8, 5, 2)(maps())
    assert [tuple(output.logits.shape) for output in outputs] == [(2, 2 * 5, *size) for size in SIZES]
    assert [tuple(output.boxes.shape) for output in outputs] == [(2, 2 * 4, *size) for size in SIZES]
    assert [tuple(output.quality.shape) for output in outputs] == [(2, 2, *size) for size in SIZES]


def test_categories_and_quality_start_at_the_prior():
    for output in DecoupledHead(8, 5, prior=0.02)([torch.zeros(2, 8, 4, 4)] * 3):
        assert_close(output.logits.sigmoid(), torch.full_like(output.logits, 0.02))
        assert_close(output.quality.sigmoid(), torch.full_like(output.quality, 0.02))


def test_levels_share_no_weights():
    head, levels = DecoupledHead(8, 5).eval(), maps()
    before = head(levels)
    for parameter in head.levels[1].parameters():
        parameter.data += 0.1
    for level, (old, new) in enumerate(zip(before, head(levels), strict=True)):
        assert all(torch.equal(a, b) == (level != 1) for a, b in zip(old, new, strict=True))


def test_categories_and_boxes_have_towers_of_their_own():
    head = DecoupledHead(8, 5, num_levels=1)
    (output,) = head(maps()[:1])
    output.logits.sum().backward()
    level = head.levels[0]
    assert all(parameter.grad is not None for parameter in level.class_tower.parameters())
    assert all(parameter.grad is None for parameter in level.box_tower.parameters())
