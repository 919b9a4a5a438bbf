import numpy as np
import pycocotools.mask as coco_mask
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from detection_on_disk import annotation, coco, image, write_json
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.outlines import joined, mask_outlines, outline


def drawn(polygon, height, width):
    return coco_mask.decode(coco_mask.frPyObjects([list(polygon)], height, width))[..., 0]


@settings(max_examples=60)
@given(arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.integers(0, 1)))
def test_a_mask_is_drawn_again_from_its_outline_but_for_touching_corners(squares):
    mask = np.kron(squares, np.ones((6, 6), np.uint8))
    polygon = joined(mask_outlines(mask))
    if not mask.any():
        assert polygon == []
        return
    difference = drawn(polygon, *mask.shape) != mask
    # Where two squares touch at a corner, the lines of both go through the same point.
    assert difference.sum() <= 4 * squares.size


def test_a_mask_with_a_hole_and_two_parts_is_drawn_again_exactly():
    mask = np.zeros((30, 40), np.uint8)
    mask[2:20, 3:22] = 1
    mask[8:14, 9:15] = 0
    mask[15:28, 30:39] = 1
    assert len(mask_outlines(mask)) == 3
    assert np.array_equal(drawn(joined(mask_outlines(mask)), 30, 40), mask)


@pytest.mark.parametrize(
    "polygons",
    [
        [[5, 5, 25, 5, 25, 25, 5, 25]],
        [[5, 5, 15, 5, 15, 15, 5, 15], [20, 20, 30, 20, 30, 28, 20, 28]],
        [[5, 5, 25, 5, 25, 25, 5, 25], [15, 15, 35, 15, 35, 28, 15, 28]],  # they overlap
    ],
)
def test_polygons_of_an_annotation_become_one_with_the_same_pixels(tmp_path, polygons):
    record = annotation(1, box=(5, 5, 30, 23), segmentation=polygons)
    data = read_coco(write_json(tmp_path / "a.json", coco([image(1, height=30, width=40)], [record])))
    assert np.array_equal(drawn(outline(data, 0), 30, 40), data.mask(0))
