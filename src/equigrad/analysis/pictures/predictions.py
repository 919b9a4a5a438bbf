"""Predictions of classifiers as pictures, coloured by the frequency group of the categories."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from equigrad.analysis.pictures.text import draw_text, fitted, text_width

if TYPE_CHECKING:
    from PIL.Image import Image

# Okabe and Ito's blue, green and vermilion for head, middle and tail, distinct for every kind of colour vision.
GROUP_COLOURS = {
    **dict.fromkeys(("many", "frequent"), "#0072b2"),
    **dict.fromkeys(("medium", "common"), "#009e73"),
    **dict.fromkeys(("few", "rare"), "#d55e00"),
}

_IMAGE_SIZE = 384  # longer side of the shown image
_PANEL_WIDTH, _ROW_HEIGHT, _MARGIN = 400, 54, 16
_TEXT, _TRACK = "#111827", "#e5e7eb"


class RankedLabel(NamedTuple):
    """A category that a classifier predicts, with its score."""

    name: str
    score: float
    group: str  # by training count, one of `GROUP_COLOURS`


def draw_labels(image: "Image", labels: Sequence[RankedLabel]) -> "Image":
    """The image with its best categories beside it, best first: names, scores and bars in the colour of the group."""
    from PIL import Image

    shown = scaled(image, _IMAGE_SIZE)
    found = {label.group for label in labels}
    entries = {group: group for group in GROUP_COLOURS if group in found}  # head first
    panel_height = _ROW_HEIGHT * len(labels) + 24
    height = max(shown.height, panel_height) + 2 * _MARGIN
    canvas = Image.new("RGB", (shown.width + _PANEL_WIDTH + 3 * _MARGIN, height), "white")
    canvas.paste(shown, (_MARGIN, _MARGIN))
    left = shown.width + 2 * _MARGIN
    for row, label in enumerate(labels):
        _draw_label(canvas, label, left, _MARGIN + row * _ROW_HEIGHT)
    draw_legend(canvas, entries, (left, _MARGIN + len(labels) * _ROW_HEIGHT), 15)
    return canvas


def scaled(image: "Image", longest: int) -> "Image":
    """Resize so that the longer side has at most `longest` pixels; small images are enlarged by a whole factor."""
    from PIL.Image import Resampling

    side = max(image.size)
    if side * 2 <= longest:
        factor = longest // side
        return image.resize((image.width * factor, image.height * factor), Resampling.NEAREST)
    factor_down = min(longest / side, 1.0)
    size = (max(round(image.width * factor_down), 1), max(round(image.height * factor_down), 1))
    return image.resize(size, Resampling.LANCZOS)


def draw_legend(image: "Image", entries: Mapping[str, str], corner: tuple[int, int], size: int) -> None:
    """A square in the colour of each group and a text beside it, in one row.

    Args:
        image: what the legend is drawn on.
        entries: text by group.
        corner: left and top of the legend.
        size: text size in pixels.
    """
    from PIL import ImageDraw

    draw, (left, top) = ImageDraw.Draw(image), corner
    side, gap = size * 4 // 5, size // 4
    for group, text in entries.items():
        draw.rectangle((left, top + gap, left + side, top + gap + side), fill=GROUP_COLOURS[group])
        draw_text(image, (left + side + 2 * gap, top), text, size, _TEXT)
        left += side + 2 * gap + round(text_width(text, size)) + size


def _draw_label(image: "Image", label: RankedLabel, left: int, top: int) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(image)
    colour, right = GROUP_COLOURS[label.group], left + _PANEL_WIDTH
    score = f"{100 * label.score:.1f} %"
    score_width = text_width(score, 18)
    name = fitted(label.name, _PANEL_WIDTH - score_width - _MARGIN, 18)
    draw_text(image, (left, top), name, 18, colour)
    draw_text(image, (right - score_width, top), score, 18, _TEXT)
    bar = (left, top + 28, right, top + 38)
    draw.rounded_rectangle(bar, radius=4, fill=_TRACK)
    width = round(_PANEL_WIDTH * min(max(label.score, 0.0), 1.0))
    if width >= 8:  # a shorter bar would be only its round ends
        draw.rounded_rectangle((left, bar[1], left + width, bar[3]), radius=4, fill=colour)
