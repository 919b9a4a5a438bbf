"""Objects drawn on their image: boxes, masks, names and scores, coloured by how often the category was trained.

draw_objects(image, [DetectedObject("cup", 0.91, "common", (20, 30, 80, 90))])
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.pictures.label_layout import Box, LabelLayout, Size
from equigrad.analysis.pictures.predictions import GROUP_COLOURS, draw_legend, scaled
from equigrad.analysis.pictures.text import draw_text, fitted, text_width

if TYPE_CHECKING:
    from PIL.Image import Image

GROUPS = ("frequent", "common", "rare")
"""In the order of drawing: later groups are on top, and within a group small objects are on top of large ones."""

IMAGE_SIZE = 1536  # longer side of the shown image, at most
_LEAST_SIZE = (24, 4)  # width and height in text sizes: even the narrowest image has room for legend and labels
_LEAST_TEXT = 9  # pixels
_OPACITY = 0.35  # of masks


class DetectedObject(NamedTuple):
    """An object that a detector found."""

    name: str
    score: float
    group: str  # one of `GROUPS`
    box: Box  # in pixels of the image
    mask: NDArray[np.bool_] | None = None  # (H, W) like the image


def draw_objects(image: "Image", objects: Sequence[DetectedObject], longest: int = IMAGE_SIZE) -> "Image":
    """The image, enlarged if it is small, with its objects and a legend that counts them by group.

    Args:
        image: what the boxes were found in.
        objects: in any order; frequent categories and large boxes are drawn first.
        longest: length of the longer side in pixels; text stays readable, so it covers more of a smaller picture.
    """
    from PIL import Image

    shown = scaled(image, longest)
    text_size = max(max(shown.size) // 64, 13)
    area = (max(shown.width, _LEAST_SIZE[0] * text_size), max(shown.height, _LEAST_SIZE[1] * text_size))
    ordered = _in_order(objects)
    boxes = [_scaled_box(found.box, image.size, shown.size) for found in ordered]
    canvas = Image.new("RGB", (area[0], area[1] + 2 * text_size), "white")
    canvas.paste(outlined(image, objects, longest))
    _draw_names(canvas, ordered, boxes, area, min(text_size, _label_size(len(objects), area)))
    counts = Counter(found.group for found in objects)
    legend = {group: f"{group} {counts[group]}" for group in GROUPS}
    draw_legend(canvas, legend, (text_size // 2, area[1] + text_size // 3), text_size)
    return canvas


def outlined(image: "Image", objects: Sequence[DetectedObject], longest: int) -> "Image":
    """The image, its longer side of at most so many pixels, with boxes and masks alone."""
    from PIL import ImageDraw

    shown, ordered = scaled(image, longest), _in_order(objects)
    _tint(shown, ordered)
    draw = ImageDraw.Draw(shown)
    line_width = max(max(shown.size) // 360, 2)
    for found in ordered:
        box = _scaled_box(found.box, image.size, shown.size)
        # A white edge makes the line visible on any colour, also on a mask of its own group.
        draw.rectangle((box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1), outline="white", width=line_width + 2)
        draw.rectangle(box, outline=GROUP_COLOURS[found.group], width=line_width)
    return shown


def _in_order(objects: Sequence[DetectedObject]) -> list[DetectedObject]:
    return sorted(objects, key=lambda found: (GROUPS.index(found.group), -_area(found.box)))


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _scaled_box(box: Box, size: Size, shown: Size) -> Box:
    """The outermost pixels of the box in the resized image, clipped to it."""
    across, down = shown[0] / size[0], shown[1] / size[1]
    left, right = sorted(min(max(edge * across, 0), shown[0] - 1) for edge in (box[0], box[2] - 1 / across))
    top, bottom = sorted(min(max(edge * down, 0), shown[1] - 1) for edge in (box[1], box[3] - 1 / down))
    return (round(left), round(top), round(right), round(bottom))


def _tint(shown: "Image", objects: Sequence[DetectedObject]) -> None:
    """Fill the masks with the translucent colour of their group, and draw their borders."""
    from PIL import Image

    for found in objects:
        if found.mask is None:
            continue
        mask = Image.fromarray(found.mask).resize(shown.size, Image.Resampling.NEAREST)
        window = mask.getbbox()
        if window is None:
            continue
        inside = np.asarray(mask.crop(window))
        opacity = np.where(_border(inside), 255, np.uint8(255 * _OPACITY) * inside).astype(np.uint8)
        shown.paste(GROUP_COLOURS[found.group], window[:2], Image.fromarray(opacity))


def _border(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels of a mask (H, W) beside one, also a diagonal one, that is not of it."""
    padded = np.pad(mask, 1)
    columns = padded[:, :-2] & padded[:, 1:-1] & padded[:, 2:]
    surrounded: NDArray[np.bool_] = columns[:-2] & columns[1:-1] & columns[2:]
    return mask & ~surrounded


def _draw_names(
    image: "Image", objects: Sequence[DetectedObject], boxes: Sequence[Box], area: Size, text_size: int
) -> None:
    """A label for each object. Positions are chosen from the last object to the first: rare and small ones first."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(image)
    texts = [_label(found, area[0] // 2, text_size) for found in objects]
    layout = LabelLayout(area, text_size * 4 // 3)
    positions: list[Box] = []
    for text, box in zip(reversed(texts), reversed(boxes), strict=True):
        width = round(text_width(text, text_size)) + text_size // 2
        positions.append(layout.place(width, box))
    for found, text, box, position in zip(objects, texts, boxes, reversed(positions), strict=True):
        colour = GROUP_COLOURS[found.group]
        draw.line(_shortest_link(box, position), fill=colour, width=2)
        draw.rectangle((position[0], position[1], position[2] - 1, position[3] - 1), fill=colour, outline="white")
        middle = (position[0] + text_size // 4, (position[1] + position[3]) // 2)
        draw_text(image, middle, text, text_size, "white", is_middle=True)


def _label_size(num_objects: int, area: Size) -> int:
    """The text size at which all labels together cover a quarter of the picture; smaller text cannot be read."""
    label_area = 8 * 4 / 3  # of a usual name and its score, in squares of the text size
    return max(round(math.sqrt(area[0] * area[1] / 4 / label_area / max(num_objects, 1))), _LEAST_TEXT)


def _label(found: DetectedObject, width: int, text_size: int) -> str:
    score = f" {found.score:.2f}"
    return fitted(found.name, width - text_width(score, text_size), text_size) + score


def _shortest_link(box: Box, label: Box) -> Box:
    """A line from the edge of a label to the edge of its box; a point if they touch."""
    start_x, end_x = _nearest((label[0], label[2]), (box[0], box[2]))
    start_y, end_y = _nearest((label[1], label[3]), (box[1], box[3]))
    return (start_x, start_y, end_x, end_y)


def _nearest(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """The points of two intervals that are nearest to each other."""
    shared = max(first[0], second[0])
    if shared <= min(first[1], second[1]):
        return shared, shared
    return (first[1], second[0]) if first[1] < second[0] else (first[0], second[1])
