"""Drawn items of detection, whose boxes are known to be those of their masks."""

import torch
from torchvision import tv_tensors


def disc(size, centre, radii):
    """A mask (H, W) of an ellipse."""
    rows, columns = (torch.arange(length) + 0.5 for length in size)
    inside = ((rows[:, None] - centre[0]) / radii[0]) ** 2 + ((columns - centre[1]) / radii[1]) ** 2 <= 1
    return inside.byte()


def rectangle(size, box):
    """A mask (H, W) of a box x1, y1, x2, y2."""
    mask = torch.zeros(size, dtype=torch.uint8)
    x1, y1, x2, y2 = box
    mask[y1:y2, x1:x2] = 1
    return mask


def box_of(mask):
    """x1, y1, x2, y2 of the pixels of a mask, in the plainest way."""
    rows, columns = mask.nonzero().T
    return [int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1]


def make_item(masks, size, *, with_masks=True, image_id=7):
    """An image with the masks' objects in white on dark; labels 10, 11, … and a field of its own for each object."""
    stacked = torch.stack(list(masks)) if len(masks) else torch.zeros((0, *size), dtype=torch.uint8)
    shown = stacked.amax(0) if len(masks) else torch.zeros(size, dtype=torch.uint8)
    boxes = torch.tensor([box_of(mask) for mask in masks], dtype=torch.float32).reshape(-1, 4)
    target = {
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
        "labels": torch.arange(len(masks)) + 10,
        "weights": torch.arange(len(masks)) / 4,
        "image_id": image_id,
        "original_size": size,
    }
    if with_masks:
        target["masks"] = tv_tensors.Mask(stacked)
    return tv_tensors.Image((40 + 200 * shown).expand(3, *size).contiguous()), target


def check_item(image, target):
    """What must hold after any transform: fields in step, types and sizes kept, boxes inside the image."""
    height, width = image.shape[-2:]
    assert isinstance(image, tv_tensors.Image)
    assert image.dtype == torch.uint8
    boxes = target["boxes"]
    assert isinstance(boxes, tv_tensors.BoundingBoxes)
    assert (boxes.dtype, boxes.canvas_size) == (torch.float32, (height, width))
    assert boxes.shape == (len(boxes), 4)
    plain = boxes.as_subclass(torch.Tensor)
    assert (plain >= 0).all()
    assert (plain[:, 2] <= width).all()
    assert (plain[:, 3] <= height).all()
    assert (plain[:, 2:] > plain[:, :2]).all()
    assert target["labels"].dtype == torch.int64
    assert torch.equal(target["weights"], (target["labels"] - 10) / 4)
    if "masks" in target:
        assert isinstance(target["masks"], tv_tensors.Mask)
        assert (target["masks"].dtype, tuple(target["masks"].shape)) == (torch.uint8, (len(boxes), height, width))


def check_boxes_are_those_of_the_masks(target, tolerance):
    """Each box within some pixels of the tight one."""
    for box, mask in zip(target["boxes"].tolist(), target["masks"], strict=True):
        assert mask.any()
        difference = max(abs(a - b) for a, b in zip(box, box_of(mask), strict=True))
        assert difference <= tolerance, f"{box} is not {box_of(mask)}"
