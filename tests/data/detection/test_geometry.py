import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close
from torchvision import tv_tensors

from detection_items import box_of, check_item, disc, make_item, rectangle
from equigrad.data.detection.geometry import (
    affine,
    boxes_to_original,
    clip,
    join,
    paste,
    place,
    rescale,
    resize,
    select,
)
from equigrad.data.detection.object_masks import tight_boxes


def boxes_of(target):
    return target["boxes"].as_subclass(torch.Tensor)


@pytest.fixture
def item():
    size = (40, 60)
    return make_item([rectangle(size, (10, 5, 30, 15)), rectangle(size, (35, 20, 60, 40))], size)


def test_resizing_scales_each_axis_by_its_own_factor(item):
    image, target = resize(*item, (20, 180))
    check_item(image, target)
    assert boxes_of(target).tolist() == [[30, 2.5, 90, 7.5], [105, 10, 180, 20]]
    assert box_of(target["masks"][1]) == [105, 10, 180, 20]


def test_resized_masks_take_the_nearest_pixel_centre():
    mask = torch.tensor([[[1, 0, 0, 1]]], dtype=torch.uint8)
    target = {"boxes": tv_tensors.BoundingBoxes([[0, 0, 4, 1.0]], format="XYXY", canvas_size=(1, 4)), "masks": mask}
    # Centres 0.67, 2, 3.33 of the old pixels: the first, the third and the fourth.
    _, resized = resize(tv_tensors.Image(torch.zeros(3, 1, 4, dtype=torch.uint8)), target, (1, 3))
    assert resized["masks"].tolist() == [[[1, 0, 1]]]


def test_rescaling_rounds_to_whole_pixels_and_keeps_at_least_two(item):
    assert rescale(*item, 1.26)[0].shape == (3, 50, 76)
    assert rescale(*item, 0.001)[0].shape == (3, 2, 2)


@pytest.mark.parametrize(("top", "left"), [(0, 0), (3, -2), (-3, 2), (-4, -4), (9, 9), (-9, 0), (0, 12)])
def test_pasting_covers_what_a_loop_over_pixels_covers(top, left):
    pixels = torch.arange(1, 16).reshape(3, 5)
    canvas = torch.zeros(6, 7, dtype=torch.int64)
    expected = canvas.clone()
    for row in range(3):
        for column in range(5):
            if 0 <= row + top < 6 and 0 <= column + left < 7:
                expected[row + top, column + left] = pixels[row, column]
    paste(canvas, pixels, top, left)
    assert torch.equal(canvas, expected)


def test_placing_pads_and_crops(item):
    image, target = place(*item, 6, -20, (50, 50), fill=9)
    assert (image[:, :6] == 9).all()
    assert (image[:, 46:] == 9).all()
    assert torch.equal(image[:, 6:46, :40], item[0][:, :, 20:])
    assert boxes_of(target).tolist() == [[-10, 11, 10, 21], [15, 26, 40, 46]]
    assert box_of(target["masks"][0]) == [0, 11, 10, 21]


def test_clipping_cuts_boxes_and_drops_what_is_outside(item):
    image, target = place(*item, 0, -30, (40, 20))
    target = clip(target)
    check_item(image, target)
    assert target["labels"].tolist() == [11]
    assert boxes_of(target).tolist() == [[5, 20, 20, 40]]


def test_an_object_that_was_cut_gets_the_box_of_what_is_left_of_its_mask():
    size = (60, 60)
    whole, cut = disc(size, (15, 15), (9.4, 9.4)), disc(size, (45, 45), (12, 12))
    image, target = make_item([whole, cut], size)
    exact = target["boxes"] + 0.25  # of the uncut one, which keeps it
    target["boxes"] = tv_tensors.wrap(exact, like=target["boxes"])
    image, target = place(image, target, 0, 0, (36, 60))
    target = clip(target)
    assert boxes_of(target)[0].tolist() == exact[0].tolist()
    left, top, right, bottom = boxes_of(target)[1].tolist()
    assert [left, top, right, bottom] == box_of(target["masks"][1])
    assert right - left < 20  # the whole disc has 24


def test_an_object_without_a_pixel_of_its_mask_is_dropped():
    size = (60, 60)
    image, target = make_item([disc(size, (30, 30), (20, 20))], size)
    _, corner = place(image, target, 0, 0, (13, 13))  # the box reaches into it, the disc does not
    assert len(clip(corner)["boxes"]) == 0
    del corner["masks"]
    assert boxes_of(clip(corner)).tolist() == [[10, 10, 13, 13]]


def test_clipping_drops_by_side_share_and_aspect():
    boxes = [[0, 0, 1.5, 9], [-9, 0, 1, 10], [0, 0, 100, 4], [0, 0, 9, 9]]
    target = {"boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(50, 100))}
    target["labels"] = torch.arange(4)
    assert clip(target)["labels"].tolist() == [0, 1, 2, 3]
    assert clip(target, min_side=2)["labels"].tolist() == [2, 3]
    assert clip(target, min_share=0.2)["labels"].tolist() == [0, 2, 3]
    assert clip(target, max_aspect=20)["labels"].tolist() == [0, 1, 3]


def test_an_affine_map_moves_points_as_the_matrix_says():
    size = (40, 60)
    item = make_item([rectangle(size, (10, 5, 30, 15))], size)
    # A quarter turn: (x, y) -> (40 - y, x).
    image, target = affine(*item, torch.tensor([[0.0, -1, 40], [1, 0, 0]]), (60, 40))
    check_item(image, target)
    assert boxes_of(target).tolist() == [[25, 10, 35, 30]]
    assert box_of(target["masks"][0]) == [25, 10, 35, 30]
    assert torch.equal(image, torch.rot90(item[0], -1, (1, 2)))


def test_an_affine_map_fills_where_there_is_no_image(item):
    image, target = affine(*item, torch.tensor([[1.0, 0, 100], [0, 1, 0]]), (40, 60), fill=17)
    assert (image == 17).all()
    assert not target["masks"].any()
    assert len(clip(target)["boxes"]) == 0


@given(angle=st.floats(-0.5, 0.5), scale=st.floats(0.5, 2), x=st.integers(40, 100), y=st.integers(40, 100))
@settings(max_examples=30)
def test_the_box_around_the_corners_is_that_of_a_rotated_rectangle(angle, scale, x, y):
    size = (160, 160)
    item = make_item([rectangle(size, (x, y, x + 25, y + 18))], size)
    turn = scale * torch.tensor([[1, -angle], [angle, 1]]) / (1 + angle**2) ** 0.5
    matrix = torch.cat([turn, (torch.tensor([200.0, 200]) - turn @ torch.tensor([80.0, 80]))[:, None]], dim=1)
    _, target = affine(*item, matrix, (400, 400))
    assert_close(boxes_of(target), tight_boxes(target["masks"]), atol=2, rtol=0)


def test_selecting_keeps_all_fields_in_step(item):
    chosen = select(item[1], torch.tensor([False, True]))
    check_item(item[0], chosen)
    assert chosen["labels"].tolist() == [11]
    assert chosen["image_id"] == 7


def test_joining_takes_the_image_from_the_first(item):
    other = make_item([rectangle((40, 60), (0, 0, 5, 5))], (40, 60), image_id=8)[1]
    joined = join([item[1], other])
    assert joined["labels"].tolist() == [10, 11, 10]
    assert joined["masks"].shape == (3, 40, 60)
    assert isinstance(joined["boxes"], tv_tensors.BoundingBoxes)
    assert joined["image_id"] == 7


def test_targets_with_other_fields_or_rows_are_refused(item):
    target = item[1]
    with pytest.raises(
        ValueError, match=r"must have the same fields, got \['boxes', 'labels', 'masks', 'weights'\] and"
    ):
        join([target, {name: value for name, value in target.items() if name != "masks"}])
    with pytest.raises(ValueError, match="'labels' must have a row for each of the 2 boxes, got \\(3,\\)"):
        select(target | {"labels": torch.arange(3)}, torch.tensor([True, False]))


@given(
    original=st.tuples(st.integers(20, 900), st.integers(20, 900)),
    network=st.tuples(st.integers(20, 900), st.integers(20, 900)),
)
@settings(max_examples=40)
def test_boxes_go_back_to_the_original_image(original, network):
    image = tv_tensors.Image(torch.zeros(3, *original, dtype=torch.uint8))
    boxes = torch.tensor([[0, 0, original[1], original[0]], [3, 4, 15, 19]], dtype=torch.float32)
    target = {"boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=original)}
    _, resized = resize(image, target, network)
    assert_close(boxes_to_original(boxes_of(resized), network, original), boxes, atol=1e-3, rtol=0)
    sizes = torch.tensor(network), torch.tensor(original)
    assert_close(boxes_to_original(boxes_of(resized).double(), *sizes), boxes.double(), atol=1e-3, rtol=0)


def test_boxes_beyond_the_image_are_cut_on_the_way_back():
    boxes = torch.tensor([[-4.0, 10, 700, 100]])
    assert boxes_to_original(boxes, (100, 640), (50, 320)).tolist() == [[0, 5, 320, 50]]
    assert boxes_to_original(boxes[:0], (100, 640), (50, 320)).shape == (0, 4)
