"""Pyramids and objects for the tests of assigners: small, with coarse coordinates, so that ties are common."""

import torch
from hypothesis import strategies as st

from equigrad.models.detection.anchors import AnchorGrid

STRIDES = (8, 16)
SIZES = ((6, 8), (3, 4))  # an image of 48 x 64


def anchors(scales=(2, 3), dtype=torch.float64, **options):
    return AnchorGrid(STRIDES, scales, **options)(SIZES, dtype=dtype)


@st.composite
def objects(draw, most=6):
    """Boxes (G, 4), corners at multiples of 2 pixels in 48 x 64, none equal to another; and labels (G,)."""
    corner = st.tuples(st.integers(0, 30), st.integers(0, 22))
    side = st.tuples(st.integers(1, 20), st.integers(1, 20))
    drawn = draw(st.lists(st.tuples(corner, side), max_size=most, unique=True))
    boxes = [[2.0 * x, 2.0 * y, 2.0 * (x + w), 2.0 * (y + h)] for (x, y), (w, h) in drawn]
    labels = draw(st.lists(st.integers(0, 4), min_size=len(boxes), max_size=len(boxes)))
    return torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4), torch.tensor(labels, dtype=torch.int64)


def iou(a, b):
    """Of two boxes, in plain Python."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / union


def centre(box):
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def assert_order_of_objects_is_irrelevant(assigner, levels, seed, num_objects):
    """Shuffles objects at random places, which do not tie."""
    generator = torch.Generator().manual_seed(seed)
    corners = 40 * torch.rand(num_objects, 2, generator=generator, dtype=torch.float64)
    boxes = torch.cat([corners, corners + 4 + 30 * torch.rand(num_objects, 2, generator=generator)], 1)
    order, labels = torch.randperm(num_objects, generator=generator), torch.arange(num_objects)
    straight, shuffled = assigner(levels, boxes, labels), assigner(levels, boxes[order], labels[order])
    assert shuffled.labels.tolist() == straight.labels.tolist()
    assert order[shuffled.matched[shuffled.positives]].tolist() == straight.matched[straight.positives].tolist()
