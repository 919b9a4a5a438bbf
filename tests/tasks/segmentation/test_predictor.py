import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from equigrad.data.images.sources import ImageSource
from equigrad.labels import BACKGROUND
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
        return [{"labels": self.labels.data, "scores": self.labels / 10} for _ in images]


def predicted(pixels_of, tail=(), **options):
    model = Known(pixels_of)
    (prediction,) = SegmentationPredictor(model, NAMES, tail)([ImageSource(pixels=IMAGE)], **options)
    return model, prediction


def test_the_line_names_categories_by_their_share_and_marks_those_of_the_tail():
    _, prediction = predicted({2: 20, 0: 150, 5: 30}, tail={5, 6})
    assert prediction.summary == "sky 75.0 %, dog 15.0 % (tail), car 10.0 %"


def test_only_the_five_largest_are_named_and_the_rest_is_counted():
    _, prediction = predicted({0: 80, 1: 40, 2: 30, 3: 20, 4: 16, 5: 10, 6: 4}, tail=[6])
    assert prediction.summary.endswith("sign 8.0 % and 2 more")
    assert "dog" not in prediction.summary
    assert "tail" not in prediction.summary


@pytest.mark.parametrize("label", [0, 6])
def test_an_image_of_one_category_has_a_line_of_one(label):
    _, prediction = predicted({label: 200})
    assert prediction.summary == f"{NAMES[label]} 100.0 %"


def test_the_model_sees_the_pixels_of_the_image():
    model, _ = predicted({0: 200})
    assert (tuple(model.seen.shape), model.seen.dtype) == ((1, 3, 10, 20), torch.uint8)
    assert model.seen[0, :, 3, 7].tolist() == list(IMAGE.getpixel((7, 3)))


def test_the_overlay_shows_the_predicted_categories_and_outlines_the_tail():
    plain, other, outlined = (
        np.array(predicted(pixels, tail)[1].draw()) for pixels, tail in
        (({0: 100, 1: 100}, ()), ({0: 100, 2: 100}, ()), ({0: 100, 1: 100}, (1,)))
    )  # fmt: skip
    assert plain.shape[-1] == 3
    for picture in (other, outlined):
        assert picture.shape != plain.shape or (picture != plain).any()


def test_a_prediction_has_its_label_map_and_the_categories_of_it():
    model, prediction = predicted({2: 20, 0: 150, 5: 30}, tail={5})
    np.testing.assert_array_equal(prediction.label_map, model.labels)
    assert (prediction.labels.tolist(), prediction.names) == ([0, 5, 2], ("sky", "dog", "car"))
    assert prediction.rows()[1] == ("dog", 5, 30, 0.15, "tail")


def test_pixels_below_the_threshold_have_no_category():
    _, prediction = predicted({0: 50, 3: 100, 5: 50}, threshold=0.4)
    assert np.unique(prediction.label_map).tolist() == [BACKGROUND, 5]
    assert prediction.summary == "dog 25.0 %"
    _, nothing = predicted({0: 200}, threshold=0.4)
    assert (nothing.summary, nothing.rows()) == ("no category", [])
    np.testing.assert_array_equal(np.array(nothing.draw())[0, 0], IMAGE.getpixel((0, 0)))


def test_images_of_several_sizes_come_back_in_their_order():
    class Sizes(nn.Conv2d):
        def forward(self, images):
            self.shapes.append(tuple(images.shape))
            return [{"labels": image[0].long() // 100, "scores": image[0] / 255} for image in images]

    model = Sizes(3, 1, 1)
    model.shapes = []
    sources = [ImageSource(pixels=Image.new("RGB", size, (red, 0, 0)))
               for size, red in (((4, 3), 0), ((5, 6), 100), ((4, 3), 200))]  # fmt: skip
    found = SegmentationPredictor(model, NAMES, ())(sources)
    assert [(one.label_map.shape, one.label_map.max()) for one in found] == [((3, 4), 0), ((6, 5), 1), ((3, 4), 2)]
    assert model.shapes == [(2, 3, 3, 4), (1, 3, 6, 5)]  # images of one size are together
