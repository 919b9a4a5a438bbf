import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from PIL import Image
from torch.testing import assert_close
from torchvision.transforms import v2

from detection_items import check_boxes_are_those_of_the_masks, check_item, disc, make_item, rectangle
from equigrad.data.detection.geometry import boxes_to_original
from equigrad.data.detection.object_masks import ObjectMasks
from equigrad.data.detection.transforms import (
    HSVJitter,
    PadTo,
    RandomAffine,
    ResizeLongerSide,
    ResizeShorterSide,
    evaluation_transform,
    letterbox,
    train_transform,
)

TRANSFORMS = {
    "train": train_transform(short=range(90, 140), long=200),
    "evaluation": evaluation_transform(100, 170),
    "letterbox": letterbox(120),
    "affine": RandomAffine((128, 160), scale=(0.5, 2.0)),
    "hsv": HSVJitter(),
}
each_transform = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def boxes_of(target):
    return target["boxes"].as_subclass(torch.Tensor)


def two_objects(with_masks=True):
    size = (120, 150)
    masks = [rectangle(size, (20, 10, 70, 60)), disc(size, (80, 100), (30, 40))]
    return make_item(masks, size, with_masks=with_masks)


@st.composite
def items(draw):
    size = draw(st.integers(48, 160)), draw(st.integers(48, 160))
    masks = []
    for draws_disc in draw(st.lists(st.booleans(), max_size=3)):
        height, width = draw(st.integers(6, size[0])), draw(st.integers(6, size[1]))
        top, left = draw(st.integers(0, size[0] - height)), draw(st.integers(0, size[1] - width))
        centre, radii = (top + height / 2, left + width / 2), (height / 2, width / 2)
        masks.append(
            disc(size, centre, radii) if draws_disc else rectangle(size, (left, top, left + width, top + height))
        )
    return make_item(masks, size)


@each_transform
@given(item=items(), seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_boxes_stay_those_of_their_masks(transform, item, seed):
    torch.manual_seed(seed)
    image, target = transform(*item)
    check_item(image, target)
    check_boxes_are_those_of_the_masks(target, tolerance=2)


@each_transform
@given(item=items(), seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_masks_inside_their_boxes_move_like_dense_ones(transform, item, seed):
    image, target = item
    torch.manual_seed(seed)
    _, dense = transform(image, target)
    torch.manual_seed(seed)
    _, moved = transform(image, target | {"masks": ObjectMasks.of(target["masks"].as_subclass(torch.Tensor))})
    assert torch.equal(moved["masks"].dense(), dense["masks"])
    assert torch.equal(boxes_of(moved), boxes_of(dense))


@each_transform
def test_a_target_without_objects_goes_through(transform):
    torch.manual_seed(0)
    image, target = transform(*make_item([], (50, 70)))
    check_item(image, target)
    assert len(target["labels"]) == 0


@each_transform
def test_without_masks_the_target_gets_none(transform):
    torch.manual_seed(0)
    image, target = transform(*two_objects(with_masks=False))
    check_item(image, target)
    assert "masks" not in target
    assert (target["image_id"], target["original_size"]) == (7, (120, 150))


@each_transform
def test_the_seed_of_torch_decides(transform):
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        results.append(transform(*two_objects()))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1]["boxes"], results[1][1]["boxes"])


@each_transform
def test_the_item_it_is_given_stays_as_it_was(transform):
    given_item, kept = two_objects(), two_objects()
    transform(*given_item)
    assert torch.equal(given_item[0], kept[0])
    for name in ("boxes", "labels", "masks"):
        assert torch.equal(given_item[1][name], kept[1][name])


@each_transform
def test_transforms_can_be_sent_to_workers(transform):
    copy = pickle.loads(pickle.dumps(transform))
    torch.manual_seed(1)
    expected = transform(*two_objects())
    torch.manual_seed(1)
    assert torch.equal(copy(*two_objects())[0], expected[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [((480, 640), (800, 1067)), ((640, 480), (1067, 800)), ((300, 900), (444, 1333)), ((1600, 1600), (800, 800))],
)
def test_evaluation_resizes_the_shorter_side_unless_the_longer_gets_too_long(old, new):
    image, _ = evaluation_transform(800, 1333)(*make_item([], old))
    assert image.shape[-2:] == new


def test_training_draws_each_of_the_short_sides():
    torch.manual_seed(0)
    transform = train_transform(short=(64, 80, 96), long=1000, flip=0)
    heights = {transform(*make_item([], (40, 60)))[0].shape[-2] for _ in range(40)}
    assert heights == {64, 80, 96}
    steps = ResizeShorterSide(range(640, 801, 32), 1333).short
    assert list(steps) == [640, 672, 704, 736, 768, 800]


def test_a_flip_mirrors_and_two_flips_restore():
    flip = train_transform(short=(120,), long=1000, flip=1.0)
    item = two_objects()
    image, target = flip(*item)
    assert boxes_of(target)[0].tolist() == [80, 10, 130, 60]
    assert torch.equal(image, item[0].flip(-1))
    again, twice = flip(image, target)
    assert torch.equal(again, item[0])
    assert torch.equal(boxes_of(twice), boxes_of(item[1]))
    assert torch.equal(twice["masks"], item[1]["masks"])


def test_the_letterbox_fits_and_pads_and_notes_the_size_of_the_image():
    image, target = letterbox(300, fill=9)(*two_objects())
    assert image.shape == (3, 300, 300)
    assert target["image_size"] == (240, 300)
    assert (image[:, 240:] == 9).all()
    assert not (image[:, :240] == 9).any()
    back = boxes_to_original(boxes_of(target), target["image_size"], target["original_size"])
    assert_close(back, boxes_of(two_objects()[1]))


def test_padding_refuses_images_that_are_too_large():
    with pytest.raises(ValueError, match=r"of \(120, 150\) \(height, width\) cannot be padded to \(130, 130\)"):
        PadTo((130, 130))(*two_objects())


def hsv_after(jitter, colour):
    """Hue, saturation and value of an image of one colour after the jitter."""
    image = v2.functional.to_image(Image.new("HSV", (4, 4), colour).convert("RGB"))
    pixels = np.asarray(v2.functional.to_pil_image(jitter(image, {})[0]).convert("HSV")).reshape(-1, 3)
    assert (pixels == pixels[0]).all()
    return pixels[0].tolist()


@pytest.mark.parametrize(
    ("jitter", "channel", "low", "high"),
    [(HSVJitter(0.5, 0, 0), 0, 50, 150), (HSVJitter(0, 0.7, 0), 1, 30, 170), (HSVJitter(0, 0, 0.4), 2, 60, 140)],
)
def test_colours_change_as_far_as_their_strength_allows(jitter, channel, low, high):
    torch.manual_seed(0)
    drawn = np.array([hsv_after(jitter, (100, 100, 100)) for _ in range(100)])
    assert low - 3 <= drawn[:, channel].min() < low + 8
    assert high - 8 < drawn[:, channel].max() <= high + 3
    others = np.delete(drawn, channel, axis=1)
    assert abs(others - 100).max() <= 3  # bytes of RGB lie between


def test_hue_goes_round_and_value_stops_at_white():
    torch.manual_seed(0)
    hues = {hsv_after(HSVJitter(0.1, 0, 0), (250, 200, 200))[0] for _ in range(50)}
    assert min(hues) < 20
    assert max(hues) > 225
    values = {hsv_after(HSVJitter(0, 0, 0.4), (0, 100, 250))[2] for _ in range(50)}
    assert max(values) == 255
    assert min(values) > 145


def test_colours_leave_the_target_alone():
    image, target = two_objects()
    assert HSVJitter()(image, target)[1] is target


def test_no_strength_leaves_the_colours():
    image = v2.functional.to_image(Image.linear_gradient("L").convert("RGB"))
    assert torch.equal(HSVJitter(0, 0, 0)(image, {})[0], image)


def test_an_affine_map_without_freedom_takes_the_middle_of_the_mosaic():
    item = two_objects()
    image, target = RandomAffine((60, 70), degrees=0, translate=0, scale=(1, 1), shear=0)(*item)
    assert torch.equal(image, item[0][:, 30:90, 40:110])
    assert boxes_of(target)[0].tolist() == [0, 0, 30, 30]


def test_the_longer_side_is_one_of_those_given():
    torch.manual_seed(0)
    sides = {tuple(ResizeLongerSide((75, 300))(*two_objects())[0].shape[-2:]) for _ in range(20)}
    assert sides == {(60, 75), (240, 300)}


def test_objects_of_which_an_affine_map_leaves_a_fifth_or_less_are_dropped():
    size = (120, 120)
    boxes = [(20, 40, 40, 60), (25, 40, 35, 60), (40, 40, 41, 60), (40, 40, 89, 42), (40, 70, 60, 90)]
    item = make_item([rectangle(size, box) for box in boxes], size)
    _, target = RandomAffine((60, 60), degrees=0, translate=0, scale=(1, 1), shear=0)(*item)
    # A half is left of the first and of the second; the third is one pixel wide, the fourth too long.
    assert target["labels"].tolist() == [10, 11, 14]
    _, target = RandomAffine((86, 46), degrees=0, translate=0, scale=(1, 1), shear=0)(*item)
    assert target["labels"].tolist() == [14]  # 3 of 20 columns of the first, none of the second
