import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from equigrad.tasks.segmentation.predictor import SegmentationPredictor

NAMES = ["sky", "road", "car", "pole", "sign", "dog", "cat"]
IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (10, 20, 3), dtype=np.uint8))


class Known(nn.Module):
    """The same labels for every image, row by row; keeps what it saw."""

    def __init__(self, pixels_of):
        super().__init__()
        labels = torch.cat([torch.full((count,), label) for label, count in pixels_of.items()])
        self.labels = nn.Parameter(labels.reshape(10, 20), requires_grad=False)

    def forward(self, images):
        self.seen = images
        return [{"labels": self.labels.data}]


def predicted(pixels_of, tail=()):
    model = Known(pixels_of)
    return model, SegmentationPredictor(model, NAMES, tail)(IMAGE)


def test_the_line_names_categories_by_their_share_and_marks_those_of_the_tail():
    _, prediction = predicted({2: 20, 0: 150, 5: 30}, tail={5, 6})
    assert prediction.line == "sky 75.0 %, dog 15.0 % (tail), car 10.0 %"


def test_only_the_five_largest_are_named_and_the_rest_is_counted():
    _, prediction = predicted({0: 80, 1: 40, 2: 30, 3: 20, 4: 16, 5: 10, 6: 4}, tail=[6])
    assert prediction.line.endswith("sign 8.0 % and 2 more")
    assert "dog" not in prediction.line
    assert "tail" not in prediction.line


@pytest.mark.parametrize("label", [0, 6])
def test_an_image_of_one_category_has_a_line_of_one(label):
    _, prediction = predicted({label: 200})
    assert prediction.line == f"{NAMES[label]} 100.0 %"


def test_the_model_sees_the_pixels_of_the_image():
    model, _ = predicted({0: 200})
    assert (tuple(model.seen.shape), model.seen.dtype) == ((1, 3, 10, 20), torch.uint8)
    assert model.seen[0, :, 3, 7].tolist() == list(IMAGE.getpixel((7, 3)))


def test_the_overlay_shows_the_predicted_categories_and_outlines_the_tail():
    plain, other, outlined = (
        np.array(predicted(pixels, tail)[1].picture) for pixels, tail in
        (({0: 100, 1: 100}, ()), ({0: 100, 2: 100}, ()), ({0: 100, 1: 100}, (1,)))
    )  # fmt: skip
    assert plain.shape[-1] == 3
    for picture in (other, outlined):
        assert picture.shape != plain.shape or (picture != plain).any()
