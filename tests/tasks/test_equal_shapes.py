import torch

from equigrad.tasks.equal_shapes import equal_shapes


def test_images_of_one_shape_are_together_and_shapes_in_the_order_of_their_first_image():
    images = [torch.zeros(3, *size) for size in ((4, 5), (5, 4), (4, 5), (2, 2), (5, 4))]
    assert equal_shapes(images) == [[0, 2], [1, 4], [3]]
    assert equal_shapes([]) == []
