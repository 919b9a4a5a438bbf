"""Predictions drawn for people: the image, and what the model says, coloured by how often the category was trained."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

# Okabe and Ito's blue, green and vermilion for head, middle and tail, told apart by all kinds of colour vision.
GROUP_COLOURS = {
    **dict.fromkeys(("many", "frequent"), "#0072b2"),
    **dict.fromkeys(("medium", "common"), "#009e73"),
    **dict.fromkeys(("few", "rare"), "#d55e00"),
}

_IMAGE_SIZE = 384  # longer side of the shown image
_PANEL_WIDTH, _ROW_HEIGHT, _MARGIN = 400, 54, 16
_TEXT, _TRACK = "#111827", "#e5e7eb"


class RankedLabel(NamedTuple):
    """One answer of a classifier."""

    name: str
    score: float
    group: str  # by training count, one of `GROUP_COLOURS`


class PredictedImage(NamedTuple):
    """What `equigrad predict` shows of an image."""

    picture: "Image"
    line: str


def draw_labels(image: "Image", labels: Sequence[RankedLabel]) -> "Image":
    """The image with its best categories beside it, best first: names, scores and bars in the colour of the group."""
    from PIL import Image, ImageDraw

    shown = _scaled(image)
    found = {label.group for label in labels}
    groups = [group for group in GROUP_COLOURS if group in found]  # head first
    panel_height = _ROW_HEIGHT * len(labels) + 24
    height = max(shown.height, panel_height) + 2 * _MARGIN
    canvas = Image.new("RGB", (shown.width + _PANEL_WIDTH + 3 * _MARGIN, height), "white")
    canvas.paste(shown, (_MARGIN, _MARGIN))
    draw = ImageDraw.Draw(canvas)
    left = shown.width + 2 * _MARGIN
    for row, label in enumerate(labels):
        _draw_label(draw, label, left, _MARGIN + row * _ROW_HEIGHT)
    _draw_legend(draw, groups, left, _MARGIN + len(labels) * _ROW_HEIGHT)
    return canvas


def _scaled(image: "Image") -> "Image":
    """The longer side as shown; small images are enlarged in whole pixels."""
    from PIL.Image import Resampling

    longest = max(image.size)
    if longest * 2 <= _IMAGE_SIZE:
        factor = _IMAGE_SIZE // longest
        return image.resize((image.width * factor, image.height * factor), Resampling.NEAREST)
    factor_down = min(_IMAGE_SIZE / longest, 1.0)
    size = (max(round(image.width * factor_down), 1), max(round(image.height * factor_down), 1))
    return image.resize(size, Resampling.LANCZOS)


def _draw_label(draw: "ImageDraw", label: RankedLabel, left: int, top: int) -> None:
    colour, right = GROUP_COLOURS[label.group], left + _PANEL_WIDTH
    score = f"{100 * label.score:.1f} %"
    score_width = draw.textlength(score, font=_font(18))
    name = _fitted(draw, label.name, _PANEL_WIDTH - score_width - _MARGIN)
    draw.text((left, top), name, fill=colour, font=_font(18))
    draw.text((right - score_width, top), score, fill=_TEXT, font=_font(18))
    bar = (left, top + 28, right, top + 38)
    draw.rounded_rectangle(bar, radius=4, fill=_TRACK)
    width = round(_PANEL_WIDTH * min(max(label.score, 0.0), 1.0))
    if width >= 8:  # less than both round ends is not a bar
        draw.rounded_rectangle((left, bar[1], left + width, bar[3]), radius=4, fill=colour)


def _draw_legend(draw: "ImageDraw", groups: Sequence[str], left: int, top: int) -> None:
    for group in groups:
        draw.rectangle((left, top + 4, left + 12, top + 16), fill=GROUP_COLOURS[group])
        draw.text((left + 18, top), group, fill=_TEXT, font=_font(15))
        left += 36 + round(draw.textlength(group, font=_font(15)))


def _fitted(draw: "ImageDraw", text: str, width: float) -> str:
    """The text in one line, shortened until it fits."""
    text = " ".join(text.split())
    shown = text
    while shown and draw.textlength(shown, font=_font(18)) > width:
        text = text[:-1]
        shown = text.rstrip() + "…"
    return shown


@cache
def _font(size: int) -> "FreeTypeFont":
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)
