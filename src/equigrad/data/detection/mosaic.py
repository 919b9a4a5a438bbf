"""Training images made of several: mosaic and mixup as in YOLOX, and how to leave them out in the last epochs.

    dataset = yolox_train(plain_dataset, num_strong_epochs=285)     # of 300

The data sets below draw the other images from torch's generator, which is seeded for each sample, so a resumed run sees
the same ones. The epoch reaches them by `set_epoch`, which `equigrad.engine` calls in every worker.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from equigrad.data.detection.geometry import (
    Item,
    Size,
    clip,
    fitting_factor,
    join,
    paste,
    place,
    rescale,
    shift,
    size_of,
)
from equigrad.data.detection.transformed_dataset import DetectionItems, TransformedDataset
from equigrad.data.detection.transforms import (
    DetectionTransform,
    HSVJitter,
    RandomAffine,
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
    scale: tuple[float, float] = (0.1, 2.0),
    mixup_scale: tuple[float, float] | None = (0.8, 1.6),
    fill: int = 0,
) -> "StrongThenPlain":
    """The training data of YOLOX.

    Args:
        dataset: gives images as they are, without a transform.
        size: of mosaics.
        num_strong_epochs: with mosaic, affine map and mixup; then only colour, flip and size vary (YOLOX: the last 15).
        sizes: the longer side the network sees, drawn for each image; `(size,)` where whole batches are resized.
        scale: of the affine map.
        mixup_scale: of the image mixed in, relative to `size`; None leaves mixup out, as small models do.
        fill: value where there is no image.
    """
    square = (size, size)
    finish = v2.Compose([HSVJitter(), v2.RandomHorizontalFlip(), ResizeLongerSide(sizes)])
    strong = MosaicDataset(dataset, square, RandomAffine(square, scale=scale, fill=fill), fill=fill)
    mixed = strong if mixup_scale is None else MixupDataset(strong, dataset, mixup_scale, fill=fill)
    return StrongThenPlain(
        TransformedDataset(mixed, finish), TransformedDataset(dataset, finish), num_strong_epochs=num_strong_epochs
    )


def mosaic(items: Sequence[Item], size: Size, centre: tuple[int, int], fill: int = 0) -> Item:
    """Four images around a point of a canvas: top left, top right, bottom left, bottom right.

    Args:
        items: four; what belongs to the image in a target is taken from the first.
        size: of the canvas.
        centre: row and column where they meet; what reaches beyond the canvas is cut.
        fill: value where there is no image.
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
    """The mean of two images of the same size, with the objects of both."""
    one, other = (item[0].as_subclass(Tensor) for item in (first, second))
    if one.shape != other.shape:
        raise ValueError(f"images to mix must have the same shape, got {tuple(one.shape)} and {tuple(other.shape)}")
    mean = (one.short() + other) // 2
    return tv_tensors.Image(mean.byte()), join([first[1], second[1]])


class MosaicDataset:
    """Each image in a mosaic with three others.

    Args:
        dataset: gives images as they are.
        size: at which each image just fits; the mosaic is twice as large.
        transform: from the mosaic to the result, `RandomAffine` as a rule.
        fill: value where there is no image.
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
    """Each image mixed with another one, as YOLOX does: half and half, if both show objects.

    Args:
        dataset: of the first images.
        others: of the second ones, as they are.
        scale: of the second image, relative to where it just fits into the first.
        fill: value where there is no second image.
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
        """Scaled, mirrored or not, and cut or padded to the size."""
        scale = uniform(*self.scale)
        image, target = item
        image, target = rescale(image, target, scale * fitting_factor(image, size))
        height, width = (round(side * scale) for side in size)  # of the padded image that YOLOX scales
        left = 0
        if happens(0.5):
            image, target = v2.RandomHorizontalFlip(1.0)(image, target)
            left = width - image.shape[-1]
        top, left = -integer_below(max(height - size[0], 0) + 1), left - integer_below(max(width - size[1], 0) + 1)
        image, target = place(image, target, top, left, size, self.fill)
        return image, clip(target, min_side=5, min_share=0.2, max_aspect=20)


class StrongThenPlain:
    """One data set in the first epochs, another of the same length in the rest.

    Args:
        strong: until then.
        plain: from then on.
        num_strong_epochs: how many epochs the first one serves.
    """

    def __init__(self, strong: DetectionItems, plain: DetectionItems, *, num_strong_epochs: int) -> None:
        if len(strong) != len(plain):
            raise ValueError(f"both data sets must have the same length, got {len(strong)} and {len(plain)}")
        self.strong = strong
        self.plain = plain
        self.num_strong_epochs = num_strong_epochs
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called before the first sample of an epoch is read."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.plain)

    def __getitem__(self, index: int) -> Item:
        return (self.strong if self.epoch < self.num_strong_epochs else self.plain)[index]
