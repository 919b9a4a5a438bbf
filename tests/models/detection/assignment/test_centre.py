"""Centre sampling of FCOS, by hand and against plain loops."""

import pytest
import torch
from hypothesis import given, strategies as st

from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.assignment.centre import CentreAssigner
from models.detection_cases import anchors, assert_order_of_objects_is_irrelevant, centre, objects

SMALL_RANGES = ((0.0, 20.0), (20.0, float("inf")))


def cells():
    return anchors((1,))


def positives(boxes, ranges=SMALL_RANGES, **options):
    """{cell: object}"""
    result = CentreAssigner(size_ranges=ranges, **options)(cells(), torch.tensor(boxes), torch.arange(len(boxes)))
    assert result.labels.tolist() == result.matched.tolist()  # object i has label i
    return {int(cell): int(result.matched[cell]) for cell in result.positives}


def test_the_points_near_the_centre_answer():
    # Centre (20, 20): points 12, 20, 28 are within 1.5 * 8; those at 4 and 36 lie inside the box, but too far.
    expected = {8 * y + x: 0 for y in (1, 2, 3) for x in (1, 2, 3)}
    assert positives([[2.0, 2, 38, 38]], ((0.0, 40.0), (40.0, 80.0))) == expected


def test_the_edge_of_the_square_and_of_the_object_are_outside():
    assert positives([[4.0, 4, 12, 12]], ((0.0, 40.0), (40.0, 80.0))) == {}  # points lie on its corners
    # Centre (16, 16): points 4 and 28 are exactly 1.5 strides away.
    expected = {8 * y + x: 0 for y in (1, 2) for x in (1, 2)}
    assert positives([[0.0, 0, 32, 32]], ((0.0, 40.0), (40.0, 80.0))) == expected


def test_the_largest_distance_decides_the_level():
    # Centre (24, 24) on the fine level: its points 20 and 28 have distances up to 28; on the coarse one 24 has 24.
    box = [[0.0, 0, 48, 48]]
    fine = {8 * y + x for y in (2, 3) for x in (2, 3)}
    assert set(positives(box, ((0.0, 28.0), (28.0, 99.0)), radius=1.0)) == fine  # bounds are included
    assert set(positives(box, ((0.0, 23.0), (23.0, 24.0)), radius=0.5)) == {48 + 4 + 1}


def test_the_smaller_of_two_objects_wins():
    large, small = [0.0, 0, 40, 40], [14.0, 14, 27, 27]
    for boxes in ([large, small], [small, large]):
        found = positives(boxes, ((0.0, 40.0), (40.0, 80.0)))
        assert found[8 * 2 + 2] == boxes.index(small)
        assert found[8 * 1 + 1] == boxes.index(large)


def plain_centre_sampling(levels, boxes, ranges, radius):
    matched = []
    for level, (smallest, largest) in zip(levels, ranges, strict=True):
        for cell in level:
            (x, y), stride, wanted = centre(cell), cell[2] - cell[0], []
            for number, (x1, y1, x2, y2) in enumerate(boxes):
                distances = [x - x1, y - y1, x2 - x, y2 - y]
                (middle_x, middle_y), reach = centre((x1, y1, x2, y2)), radius * stride
                is_central = abs(x - middle_x) < reach and abs(y - middle_y) < reach
                if min(distances) > 0 and smallest <= max(distances) <= largest and is_central:
                    wanted.append(((x2 - x1) * (y2 - y1), number))
            matched.append(min(wanted)[1] if wanted else -1)
    return matched


@given(objects())
def test_agrees_with_plain_loops(case):
    boxes, labels = case
    result = CentreAssigner(size_ranges=SMALL_RANGES)(cells(), boxes, labels)
    expected = plain_centre_sampling([level.tolist() for level in cells()], boxes.tolist(), SMALL_RANGES, 1.5)
    assert result.matched.tolist() == expected
    assert result.labels[result.positives].tolist() == labels[result.matched[result.positives]].tolist()


@given(st.integers(0, 999), st.integers(2, 8))
def test_the_order_of_objects_does_not_matter(seed, num_objects):
    assert_order_of_objects_is_irrelevant(CentreAssigner(size_ranges=SMALL_RANGES), cells(), seed, num_objects)


def test_published_ranges_share_an_object_of_100_pixels_between_p3_and_p4():
    grid = AnchorGrid((8, 16, 32, 64, 128))([(32, 32), (16, 16), (8, 8), (4, 4), (2, 2)])
    result = CentreAssigner()(grid, torch.tensor([[76.0, 76, 176, 176]]), torch.tensor([3]))
    # P3: x and y of 116, 124, 132, at most 60 from a side. P4: of 104, 120, 136; only from 104 a side is 64 or farther.
    levels = torch.bucketize(result.positives, torch.tensor([1024, 1280, 1344, 1360]), right=True)
    assert levels.bincount(minlength=5).tolist() == [9, 5, 0, 0, 0]


def test_there_is_a_range_for_every_level():
    with pytest.raises(ValueError, match="expected cells of 5 levels, got 2"):
        CentreAssigner()(cells(), torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
    with pytest.raises(ValueError, match="radius must be above 0, got 0"):
        CentreAssigner(0)
