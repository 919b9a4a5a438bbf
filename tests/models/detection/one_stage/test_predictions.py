import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.one_stage.head import LevelOutput
from equigrad.models.detection.one_stage.predictions import class_logits, image_predictions, join, join_quality, split

SIZES = ((3, 4), (2, 2), (1, 1))


def outputs(num_anchors=2, num_logits=3, num_images=2):
    generator = torch.Generator().manual_seed(0)

    def draw(channels, size):
        return torch.randn(num_images, num_anchors * channels, *size, generator=generator)

    return [LevelOutput(draw(num_logits, size), draw(4, size), draw(1, size)) for size in SIZES]


def test_a_joined_value_is_that_of_its_place_and_anchor():
    levels = outputs()
    values = join([level.boxes for level in levels], 4)
    assert values.shape == (2, 2 * (12 + 4 + 1), 4)
    # level 1 (2 x 2), y = 1, x = 0, anchor 1: after the 24 anchors of level 0 come 2 * (1 * 2 + 0) + 1
    assert_close(values[1, 24 + 5], levels[1].boxes[1, 4:8, 1, 0])


@given(num_anchors=st.integers(1, 3), num_images=st.integers(1, 3))
def test_splitting_undoes_joining(num_anchors, num_images):
    levels = outputs(num_anchors, num_images=num_images)
    maps = split(join_quality(levels), levels, num_anchors)
    for level, found in zip(levels, maps, strict=True):
        assert torch.equal(found, level.quality.flatten(0, 1))


def test_logits_for_the_loss_are_a_view_with_the_categories_of_an_anchor_together():
    level = outputs()[0]
    logits = class_logits(level, 2)
    assert logits.data_ptr() == level.logits.data_ptr()
    assert logits.is_contiguous()
    assert torch.equal(logits[1 * 2 + 1, 2], level.logits[1, 1 * 3 + 2])


def test_logits_with_channels_innermost_have_the_same_order():
    level = outputs()[0]
    last = LevelOutput(level.logits.to(memory_format=torch.channels_last), level.boxes, None)
    assert torch.equal(class_logits(last, 2), class_logits(level, 2))


def test_logits_are_found_by_the_index_of_an_anchor():
    levels = outputs()
    anchors = AnchorGrid((8, 16, 32), (3, 4))(SIZES)
    predictions = image_predictions(levels, anchors, DeltaCoder())[1]
    everything = join([level.logits for level in levels], 3)[1]
    indices = torch.tensor([0, 7, 23, 24, 25, 33])
    assert torch.equal(predictions.logits_at(indices), everything[indices])
    assert predictions.logits_at(torch.empty(0, dtype=torch.int64)).shape == (0, 3)


def test_predicted_boxes_are_decoded_from_their_own_anchors():
    levels = outputs()
    anchors = AnchorGrid((8, 16, 32), (3, 4))(SIZES)
    predictions = image_predictions(levels, anchors, DeltaCoder())[0]
    # level 0, y = 2, x = 1, anchor 1: centre (12, 20), side 32
    dx, dy, dw, dh = levels[0].boxes[0, 4:8, 2, 1]
    centre = torch.stack([12 + 32 * dx, 20 + 32 * dy])
    half = torch.stack([dw.exp(), dh.exp()]) * 16
    assert_close(predictions.boxes[2 * (2 * 4 + 1) + 1], torch.cat([centre - half, centre + half]))
