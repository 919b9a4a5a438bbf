import torch

from detection_items import make_item, rectangle
from equigrad.data.detection.transformed_dataset import TransformedDataset
from equigrad.data.detection.transforms import ResizeLongerSide


def test_every_item_passes_through_the_transform_and_the_data_set_stays_as_it_is():
    items = [
        make_item([rectangle((20, 40), (2, 4, 10, 12))], (20, 40)),
        make_item([rectangle((30, 10), (0, 0, 5, 5))], (30, 10)),
    ]
    before = [(image.clone(), target["boxes"].clone()) for image, target in items]
    dataset = TransformedDataset(items, ResizeLongerSide((80,)))
    assert len(dataset) == 2
    assert [tuple(dataset[index][0].shape) for index in range(2)] == [(3, 40, 80), (3, 80, 27)]
    assert torch.equal(dataset[0][1]["boxes"], 2 * items[0][1]["boxes"])
    for (image, target), (old_image, old_boxes) in zip(items, before, strict=True):
        assert torch.equal(image, old_image)
        assert torch.equal(target["boxes"], old_boxes)
