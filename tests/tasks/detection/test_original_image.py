import torch
from torch.testing import assert_close

from equigrad.tasks.detection.original_image import to_original_image

TARGET = {"image_size": torch.tensor([40, 60]), "original_size": torch.tensor([80, 120])}


def test_boxes_are_in_pixels_of_the_file_and_cut_at_its_border():
    prediction = {"boxes": torch.tensor([[10.0, 5.0, 70.0, 20.0]]), "scores": torch.tensor([0.5])}
    moved = to_original_image(prediction, TARGET)
    assert_close(moved["boxes"], torch.tensor([[20.0, 10.0, 120.0, 40.0]]))
    assert_close(moved["scores"], prediction["scores"])


def test_masks_of_boxes_become_masks_of_the_image():
    prediction = {"boxes": torch.tensor([[10.0, 5.0, 30.0, 20.0]]), "masks": torch.ones(1, 28, 28)}
    (mask,) = to_original_image(prediction, TARGET)["masks"]
    assert mask.shape == (80, 120)
    assert mask[11:39, 21:59].all()
    assert mask.sum() <= 32 * 42
