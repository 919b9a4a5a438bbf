"""A pyramid of a few channels, and images with objects, for tests of dense detectors."""

import torch
from torch import nn

NUM_CLASSES = 4


class TinyPyramid(nn.Module):
    """Maps of strides 8, 16 and 32."""

    def __init__(self, num_channels=8, strides=(8, 16, 32)):
        super().__init__()
        self.num_channels, self.strides = num_channels, strides
        self.stem = nn.Conv2d(3, num_channels, strides[0], stride=strides[0])
        self.steps = nn.ModuleList(nn.Conv2d(num_channels, num_channels, 2, stride=2) for _ in strides[1:])

    def forward(self, images):
        maps = [self.stem(images.float() / 255)]
        for step in self.steps:
            maps.append(step(maps[-1].relu()))
        return maps


def target(boxes, labels, image_size=(64, 96)):
    return {
        "boxes": torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        "labels": torch.tensor(labels, dtype=torch.int64),
        "image_size": torch.tensor(image_size),
    }


def batch():
    """Three images with two, no and three objects."""
    images = torch.randint(0, 256, (3, 3, 64, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    targets = [
        target([[3, 5, 40, 50], [30, 20, 90, 60]], [2, 0]),
        target([], [], (64, 80)),
        target([[0, 0, 30, 30], [50, 10, 70, 40], [10, 30, 90, 62]], [3, 3, 1]),
    ]
    return images, targets


def randomise(model, scale=0.3):
    """Weights with which outputs differ from place to place."""
    generator = torch.Generator().manual_seed(2)
    for parameter in model.head.parameters():
        parameter.data += scale * torch.randn(parameter.shape, generator=generator)
    return model
