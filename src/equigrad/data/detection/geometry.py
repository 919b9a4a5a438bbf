"""Geometric operations that move an image and its objects together. Nothing here is random.

An image is a `tv_tensors.Image` (3, H, W) of uint8. A target is a dictionary. Its tensors have one row for each object:
`boxes` (K, 4) as x1, y1, x2, y2 from pixel edge to pixel edge, `labels` (K,), `masks` if there are masks, and any other
field. Masks are `ObjectMasks`, or dense (K, H, W) of uint8 for transforms of torchvision. `image_id`, `original_size`,
`image_size` and all other values that are not tensors describe the image.

`resize`, `place` and `affine` move all objects and drop none; `clip` cuts objects at the border of the canvas and drops
those that are no longer visible.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.detection.object_masks import ObjectMasks, Size

Target = dict[str, Any]
Item = tuple[Tensor, Target]
Field = Tensor | ObjectMasks  # with a row for each object

_OF_THE_IMAGE = {"image_id", "original_size", "image_size"}


def size_of(image: Tensor) -> Size:
    """Height and width of an image or of masks (…, H, W)."""
    return image.shape[-2], image.shape[-1]


def object_fields(target: Target) -> dict[str, Field]:
    """The fields of a target that describe its objects: K rows each."""
    fields = {name: value for name, value in target.items() if isinstance(value, Field) and name not in _OF_THE_IMAGE}
    num_objects = len(fields["boxes"])
    for name, value in fields.items():
        is_scalar = isinstance(value, Tensor) and value.ndim == 0
        if is_scalar or len(value) != num_objects:
            found = tuple(value.shape) if isinstance(value, Tensor) else len(value)
            raise ValueError(f"target field {name!r} must have a row for each of the {num_objects} boxes, got {found}")
    return fields


def select(target: Target, chosen: Tensor) -> Target:
    """The target with only the chosen objects; `chosen` is (K,) bool."""
    if bool(chosen.all()):
        return target
    return target | {name: _selected(value, chosen) for name, value in object_fields(target).items()}


def _selected(value: Field, chosen: Tensor) -> Field:
    if isinstance(value, ObjectMasks):
        return value.select(chosen)
    wrapped: Tensor = tv_tensors.wrap(value.as_subclass(Tensor)[chosen], like=value)
    return wrapped


def join(targets: Sequence[Target]) -> Target:
    """One target with the objects of several targets of the same canvas; fields of the image come from the first."""
    fields = [object_fields(target) for target in targets]
    for other in fields:
        if other.keys() != fields[0].keys():
            raise ValueError(f"targets to join must have the same fields, got {sorted(fields[0])} and {sorted(other)}")
    return targets[0] | {name: _joined([other[name] for other in fields]) for name in fields[0]}


def _joined(values: Sequence[Any]) -> Field:
    if isinstance(values[0], ObjectMasks):
        return ObjectMasks.joined(values)
    wrapped: Tensor = tv_tensors.wrap(torch.cat([value.as_subclass(Tensor) for value in values]), like=values[0])
    return wrapped


def resize(image: Tensor, target: Target, size: Size) -> Item:
    """Resize image and objects to (height, width); each axis has its own factor."""
    old = size_of(image)
    if size == old:
        return image, target
    factor = torch.tensor([size[1] / old[1], size[0] / old[0]]).repeat(2)
    boxes = target["boxes"].as_subclass(Tensor) * factor
    moved = _moved(target, boxes, size, lambda masks: masks.resized(size))
    return functional.resize(image, list(size), antialias=True), moved


def mirror(image: Tensor, target: Target) -> Item:
    """Exchange left and right."""
    size = size_of(image)
    moved = _moved(target, functional.horizontal_flip(target["boxes"]), size, ObjectMasks.mirrored)
    return functional.horizontal_flip(image), moved


def rescale(image: Tensor, target: Target, factor: float) -> Item:
    """Resize image and objects by a factor; no side becomes shorter than two pixels."""
    height, width = (max(round(side * factor), 2) for side in size_of(image))  # torch fails at a single pixel
    return resize(image, target, (height, width))


def fitting_factor(image: Tensor, size: Size) -> float:
    """The largest factor at which the image fits into a canvas of (height, width)."""
    return min(size[0] / image.shape[-2], size[1] / image.shape[-1])


def place(image: Tensor, target: Target, top: int, left: int, size: Size, fill: int = 0) -> Item:
    """Put the image on a canvas with its corner at (top, left), which may be negative: padding, a crop, or both."""
    canvas = image.as_subclass(Tensor).new_full((*image.shape[:-2], *size), fill)
    paste(canvas, image.as_subclass(Tensor), top, left)
    return tv_tensors.Image(canvas), shift(target, top, left, size)


def paste(canvas: Tensor, pixels: Tensor, top: int, left: int) -> None:
    """Copy pixels (…, h, w) into the canvas (…, H, W) at (top, left); what lies outside the canvas is left out."""
    (height, width), (pixel_height, pixel_width) = size_of(canvas), size_of(pixels)
    covered = canvas[..., max(top, 0) : max(top + pixel_height, 0), max(left, 0) : max(left + pixel_width, 0)]
    covered.copy_(pixels[..., max(-top, 0) : max(height - top, 0), max(-left, 0) : max(width - left, 0)])


def shift(target: Target, top: int, left: int, size: Size) -> Target:
    """Move the objects of an image whose corner goes to (top, left) of a canvas."""
    boxes = target["boxes"].as_subclass(Tensor) + torch.tensor([left, top, left, top])
    return _moved(target, boxes, size, lambda masks: masks.shifted(top, left, size))


def affine(image: Tensor, target: Target, matrix: Tensor, size: Size, fill: int = 0) -> Item:
    """Apply the affine map `matrix` (2, 3) of points (x, y); a box becomes the bounding box of its mapped corners."""
    full = torch.cat([matrix.double(), torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)])
    backward = full.inverse()[:2]
    warped = functional.to_pil_image(image).transform(
        size[::-1],
        Image.Transform.AFFINE,
        backward.flatten().tolist(),
        Image.Resampling.BILINEAR,
        fillcolor=(fill, fill, fill),
    )
    boxes = _boxes_around_corners(target["boxes"].as_subclass(Tensor), matrix)
    moved = _moved(target, boxes, size, lambda masks: masks.warped(backward, size))
    return functional.to_image(warped), moved


def _boxes_around_corners(boxes: Tensor, matrix: Tensor) -> Tensor:
    corners = boxes.double()[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)  # (K, 4, 2)
    corners = corners @ matrix[:, :2].double().T + matrix[:, 2].double()
    return torch.cat([corners.amin(1), corners.amax(1)], dim=1).float()


def clip(
    target: Target,
    *,
    tight: bool = False,
    min_side: float = 1.0,
    min_share: float = 0.0,
    max_aspect: float = math.inf,
) -> Target:
    """Cut objects at the border of the canvas and drop those of which too little is left.

    If there are masks, an object that was cut gets the bounding box of the rest of its mask; it is dropped if no pixel
    of the mask is left.

    Args:
        target: its boxes may reach beyond their canvas.
        tight: give every object the bounding box of its mask, if there are masks: after a rotation, a box around the
            mapped corners is too large.
        min_side: boxes with a shorter side, in pixels, are dropped.
        min_share: share of the box's area that must be left.
        max_aspect: largest ratio of the longer to the shorter side.
    """
    before = target["boxes"].as_subclass(Tensor)
    canvas: Size = target["boxes"].canvas_size
    height, width = canvas
    boxes = before.clamp(min=0).minimum(torch.tensor([width, height, width, height]))
    if "masks" in target:
        rest = _windows(target["masks"]).tight_boxes()
        is_cut = (boxes != before).any(1) | (rest[:, 2] == 0)
        boxes = rest if tight else torch.where(is_cut[:, None], rest, boxes)
    sides = boxes[:, 2:] - boxes[:, :2]
    shorter, longer = sides.amin(1), sides.amax(1)
    share = sides.prod(1) / (before[:, 2:] - before[:, :2]).prod(1).clamp(min=torch.finfo(boxes.dtype).tiny)
    kept = (shorter >= min_side) & (share >= min_share) & (longer <= max_aspect * shorter)
    return select(_with_boxes(target, boxes, canvas), kept)


def boxes_to_original(boxes: Tensor, image_size: Tensor | Size, original_size: Tensor | Size) -> Tensor:
    """Convert boxes (K, 4) from the network's input to the coordinates of the image file, clipped to the image.

    Args:
        boxes: x1, y1, x2, y2.
        image_size: height and width of the image in the network's input, without padding.
        original_size: height and width of the image file.
    """
    new, old = (
        torch.as_tensor(size, dtype=boxes.dtype, device=boxes.device).flip(0).repeat(2)
        for size in (original_size, image_size)
    )
    return (boxes * (new / old)).clamp(min=0).minimum(new)


def _with_boxes(target: Target, boxes: Tensor, size: Size) -> Target:
    return target | {"boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size)}


def _moved(target: Target, boxes: Tensor, size: Size, move: Callable[[ObjectMasks], ObjectMasks]) -> Target:
    """The target with other boxes and, if there are any, its masks moved; dense ones stay dense."""
    moved = _with_boxes(target, boxes, size)
    if "masks" in target:
        masks = target["masks"]
        result = move(_windows(masks))
        moved["masks"] = result if isinstance(masks, ObjectMasks) else tv_tensors.Mask(result.dense())
    return moved


def _windows(masks: Field) -> ObjectMasks:
    return masks if isinstance(masks, ObjectMasks) else ObjectMasks.of(masks.as_subclass(Tensor))
