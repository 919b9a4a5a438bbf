"""Detections from the network's input back to the image file."""

from typing import Any

from torch import Tensor

from equigrad.data.detection.geometry import boxes_to_original
from equigrad.models.detection.two_stage.mask_head import paste_masks


def to_original_image(prediction: dict[str, Tensor], target: dict[str, Any]) -> dict[str, Tensor]:
    """Detections in pixels of the image file: boxes, and masks (K, H, W) in place of those inside the boxes."""
    size = (int(target["original_size"][0]), int(target["original_size"][1]))
    boxes = boxes_to_original(prediction["boxes"], target["image_size"], size)
    moved = prediction | {"boxes": boxes}
    return moved | {"masks": paste_masks(moved["masks"], boxes, size)} if "masks" in moved else moved
