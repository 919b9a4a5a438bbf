"""Masks inside the boxes of their objects."""

import pickle

import pytest
import torch
from hypothesis import given, strategies as st
from lightning.fabric.utilities import move_data_to_device

from detection_items import disc, make_item
from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.object_masks import ObjectMasks
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
