"""Mosaic and mixup as in YOLOX: training images made of several images, switched off for the last epochs.

    dataset = yolox_train(plain_dataset, num_strong_epochs=285)     # of 300

The other images are chosen with torch's generator, which is seeded for each sample, so a resumed run sees the same
ones. `equigrad.engine` calls `set_epoch` in every worker.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from equigrad.data.detection.geometry import (
    Item,
    clip,
    fitting_factor,
    join,
    mirror,
    paste,
    place,
    rescale,
    shift,
    size_of,
)
from equigrad.data.detection.object_masks import Size
from equigrad.data.detection.transformed_dataset import DetectionItems, TransformedDataset
from equigrad.data.detection.transforms import (
    DetectionTransform,
    HSVJitter,
    RandomAffine,
    RandomMirror,
    ResizeLongerSide,
)
from equigrad.data.random_numbers import happens, integer_below, uniform

YOLOX_SIZES = range(480, 801, 32)


def yolox_train(
    dataset: DetectionItems,
    size: int = 640,
    *,
    num_strong_epochs: int,
    sizes: Sequence[int] = YOLOX_SIZES,
    mixup_scale: tuple[float, float] | None = (0.8, 1.6),
) -> "StrongThenPlain":
    """The training data of YOLOX.

    Args:
        dataset: images without any transform.
        size: side of the images from which a mosaic is built.
        num_strong_epochs: epochs with mosaic, affine map and mixup; in the rest, 15 for YOLOX, only colour, flip and
            size vary.
        sizes: the longer side that the network sees, chosen at random for each image.
        mixup_scale: range of the scale of the image that is mixed in, relative to `size`; None switches mixup off, as
            for small models.
    """
    square = (size, size)
    finish = v2.Compose([HSVJitter(), RandomMirror(), ResizeLongerSide(sizes)])
    strong = MosaicDataset(dataset, square, RandomAffine(square, scale=(0.1, 2.0)))
    mixed = strong if mixup_scale is None else MixupDataset(strong, dataset, mixup_scale)
    return StrongThenPlain(
        TransformedDataset(mixed, finish), TransformedDataset(dataset, finish), num_strong_epochs=num_strong_epochs
    )


def mosaic(items: Sequence[Item], size: Size, centre: tuple[int, int], fill: int = 0) -> Item:
    """Put four images around a point of a canvas: top left, top right, bottom left, bottom right.

    Args:
        items: four items; the target's fields of the image come from the first.
        size: height and width of the canvas.
        centre: row and column where the images meet; parts outside the canvas are cut off.
        fill: value of pixels that no image covers.
    """
    if len(items) != 4:
        raise ValueError(f"a mosaic is made of 4 images, got {len(items)}")
    canvas = torch.full((3, *size), fill, dtype=torch.uint8)
    targets = []
    for number, (image, target) in enumerate(items):
        height, width = size_of(image)
        top = centre[0] - (height if number < 2 else 0)
        left = centre[1] - (width if number % 2 == 0 else 0)
        paste(canvas, image.as_subclass(Tensor), top, left)
        targets.append(clip(shift(target, top, left, size)))
    return tv_tensors.Image(canvas), join(targets)


def mixup(first: Item, second: Item) -> Item:
    """Average two images of the same size and keep the objects of both."""
    one, other = (item[0].as_subclass(Tensor) for item in (first, second))
    if one.shape != other.shape:
        raise ValueError(f"images to mix must have the same shape, got {tuple(one.shape)} and {tuple(other.shape)}")
    mean = (one.short() + other) // 2
    return tv_tensors.Image(mean.byte()), join([first[1], second[1]])


class MosaicDataset:
    """Items are mosaics: each image together with three random others.

    Args:
        dataset: images without any transform.
        size: each image is resized to fit into this; the mosaic is twice as large.
        transform: applied to the mosaic, usually `RandomAffine`.
        fill: value of pixels that no image covers.
    """

    def __init__(self, dataset: DetectionItems, size: Size, transform: DetectionTransform, *, fill: int = 0) -> None:
        self.dataset = dataset
        self.size = size
        self.transform = transform
        self.fill = fill

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Item:
        height, width = self.size
        centre = int(uniform(0.5 * height, 1.5 * height)), int(uniform(0.5 * width, 1.5 * width))
        indices = [index, *(integer_below(len(self.dataset)) for _ in range(3))]
        items = [self.dataset[index] for index in indices]
        fitted = [rescale(image, target, fitting_factor(image, self.size)) for image, target in items]
        return self.transform(*mosaic(fitted, (2 * height, 2 * width), centre, self.fill))


class MixupDataset:
    """Items are averaged with a random other image, as in YOLOX, if both have objects.

    Args:
        dataset: the first images.
        others: the images to mix in, without any transform.
        scale: range of the second image's scale; at 1 it just fits into the first.
        fill: value of pixels that the second image does not cover.
    """

    def __init__(
        self, dataset: DetectionItems, others: DetectionItems, scale: tuple[float, float], *, fill: int = 0
    ) -> None:
        self.dataset = dataset
        self.others = others
        self.scale = scale
        self.fill = fill

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Item:
        item = self.dataset[index]
        if len(item[1]["boxes"]) == 0:
            return item
        other = self._placed(self.others[integer_below(len(self.others))], size_of(item[0]))
        return mixup(item, other) if len(other[1]["boxes"]) > 0 else item

    def _placed(self, item: Item, size: Size) -> Item:
        """Scale the item, mirror it half of the time, and crop or pad it to the size."""
        scale = uniform(*self.scale)
        image, target = item
        image, target = rescale(image, target, scale * fitting_factor(image, size))
        height, width = (round(side * scale) for side in size)  # of the padded image that YOLOX scales
        left = 0
        if happens(0.5):
            image, target = mirror(image, target)
            left = width - image.shape[-1]
        top, left = -integer_below(max(height - size[0], 0) + 1), left - integer_below(max(width - size[1], 0) + 1)
        image, target = place(image, target, top, left, size, self.fill)
        return image, clip(target, min_side=5, min_share=0.2, max_aspect=20)


class StrongThenPlain:
    """One data set in the first epochs, another of the same length in the rest.

    Args:
        strong: data of the first epochs.
        plain: data of the other epochs.
        num_strong_epochs: number of epochs with `strong`.
    """

    def __init__(self, strong: DetectionItems, plain: DetectionItems, *, num_strong_epochs: int) -> None:
        if len(strong) != len(plain):
            raise ValueError(f"both data sets must have the same length, got {len(strong)} and {len(plain)}")
        self.strong = strong
        self.plain = plain
        self.num_strong_epochs = num_strong_epochs
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Must be called before the first sample of an epoch is read."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: int) -> Item:
        return (self.strong if self.epoch < self.num_strong_epochs else self.plain)[index]
