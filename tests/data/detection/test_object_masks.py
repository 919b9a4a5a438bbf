"""Masks inside the boxes of their objects."""

import pickle

import pytest
import torch
from hypothesis import assume, given, strategies as st
from lightning.fabric.utilities import move_data_to_device

from detection_items import disc, make_item, rectangle
from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.object_masks import ObjectMasks, tight_boxes
from equigrad.models.detection.two_stage.mask_head import mask_targets

LVIS_SIZE = (800, 1333)


def make_masks(seed, num_objects, size):
    """Masks of noise in random parts of the image; some are empty, some reach its border."""
    generator = torch.Generator().manual_seed(seed)
    masks = torch.zeros((num_objects, *size), dtype=torch.uint8)
    for mask in masks:
        top, bottom = torch.randint(size[0] + 1, (2,), generator=generator).sort().values.tolist()
        left, right = torch.randint(size[1] + 1, (2,), generator=generator).sort().values.tolist()
        mask[top:bottom, left:right] = torch.randint(2, (bottom - top, right - left), generator=generator)
    return masks


@pytest.fixture(scope="module")
def crowded():
    """The batch of one image with 300 objects of 20 to 200 pixels."""
    generator = torch.Generator().manual_seed(0)
    places = torch.rand(300, 2, generator=generator) * torch.tensor(LVIS_SIZE)
    radii = 10 * 10 ** torch.rand(300, 2, generator=generator)
    masks = [disc(LVIS_SIZE, *pair) for pair in zip(places.tolist(), radii.tolist(), strict=True)]
    return collate_detection([make_item(masks, LVIS_SIZE)])


@given(seed=st.integers(0, 10**6), num_objects=st.integers(0, 6))
def test_dense_masks_come_back_as_they_were(seed, num_objects):
    masks = make_masks(seed, num_objects, (11, 17))
    kept = ObjectMasks.of(masks)
    assert len(kept) == num_objects
    assert torch.equal(kept.dense(range(num_objects)), masks)
    chosen = list(range(num_objects))[::-2]
    assert torch.equal(kept.dense(chosen), masks[chosen])


@given(seed=st.integers(0, 10**6), num_objects=st.integers(1, 6), num_rois=st.integers(0, 9))
def test_targets_of_rois_are_those_of_dense_masks_bit_for_bit(seed, num_objects, num_rois):
    masks = make_masks(seed, num_objects, (40, 60))
    generator = torch.Generator().manual_seed(seed)
    start = torch.rand(num_rois, 2, generator=generator) * 50 - 5
    rois = torch.cat([start, start + 40 * torch.rand(num_rois, 2, generator=generator)], 1)
    matched = torch.randint(num_objects, (num_rois,), generator=generator)
    found, expected = (mask_targets(each, rois, matched, 14) for each in (ObjectMasks.of(masks), masks))
    assert torch.equal(found, expected)


def test_the_masks_of_a_crowded_image_take_few_bytes(crowded):
    masks = crowded[1][0]["masks"]
    assert len(masks) == 300
    assert masks.pixels.untyped_storage().nbytes() < 10e6
    assert len(pickle.dumps(crowded)) < 10e6 + crowded[0].numel()


def test_masks_follow_their_batch_to_a_device(crowded):
    moved = move_data_to_device(crowded, torch.device("meta"))[1][0]["masks"]
    assert moved.pixels.is_meta
    assert (len(moved), moved.size) == (300, LVIS_SIZE)


@given(seed=st.integers(0, 10**6), size=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_resized_windows_are_those_of_dense_masks(seed, size):
    masks = make_masks(seed, 4, (11, 17))
    rows, columns = (
        ((torch.arange(new, dtype=torch.float64) + 0.5) * (old / new)).long()
        for new, old in zip(size, (11, 17), strict=True)
    )
    assert torch.equal(ObjectMasks.of(masks).resized(size).dense(), masks[:, rows][:, :, columns])


@given(seed=st.integers(0, 10**6), down=st.integers(-30, 30), right=st.integers(-30, 30))
def test_shifted_windows_are_cut_at_the_canvas(seed, down, right):
    masks = make_masks(seed, 4, (11, 17))
    large = torch.zeros(4, 100, 100, dtype=torch.uint8)
    large[:, 40 + down : 51 + down, 40 + right : 57 + right] = masks
    moved = ObjectMasks.of(masks).shifted(down, right, (13, 15))
    assert torch.equal(moved.dense(), large[:, 40:53, 40:55])


@given(
    seed=st.integers(0, 10**6),
    numbers=st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    shift=st.tuples(st.floats(-20, 20), st.floats(-20, 20)),
)
def test_every_pixel_of_a_warped_mask_is_looked_up_where_the_map_says(seed, numbers, shift):
    a, b, c, d = numbers
    assume(abs(a * d - b * c) > 0.05)
    masks = make_masks(seed, 4, (11, 17))
    back = torch.tensor([[a, b, shift[0]], [c, d, shift[1]]], dtype=torch.float64)
    rows, columns = torch.arange(13) + 0.5, torch.arange(15) + 0.5
    x, y = (p * columns + q * rows[:, None] + r for p, q, r in back.float())
    inside = (x >= 0) & (x < 17) & (y >= 0) & (y < 11)
    source = torch.where(inside, y.long() * 17 + x.long(), 0)
    expected = masks.flatten(1)[:, source.flatten()].reshape(4, 13, 15) * inside
    assert torch.equal(ObjectMasks.of(masks).warped(back, (13, 15)).dense(), expected)


@given(seed=st.integers(0, 10**6), chosen=st.lists(st.booleans(), min_size=4, max_size=4))
def test_mirrored_chosen_and_joined_windows_are_those_of_dense_masks(seed, chosen):
    masks = make_masks(seed, 4, (11, 17))
    kept = ObjectMasks.of(masks)
    assert torch.equal(kept.mirrored().dense(), masks.flip(2))
    assert torch.equal(kept.select(torch.tensor(chosen)).dense(), masks[torch.tensor(chosen)])
    assert torch.equal(ObjectMasks.joined([kept, kept.mirrored()]).dense(), torch.cat([masks, masks.flip(2)]))
    assert torch.equal(kept.shifted(-3, 2, (11, 17)).tight_boxes(), tight_boxes(kept.shifted(-3, 2, (11, 17)).dense()))


def test_tight_boxes_of_masks_and_of_none():
    masks = torch.stack([rectangle((9, 8), (2, 3, 5, 9)), torch.zeros(9, 8, dtype=torch.uint8)])
    masks[0, 5, 4] = 255  # any value counts
    assert tight_boxes(masks).tolist() == [[2, 3, 5, 9], [0, 0, 0, 0]]
    assert tight_boxes(masks[:0]).shape == (0, 4)
