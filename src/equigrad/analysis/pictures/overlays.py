"""Label maps drawn over their image, with a legend of what is there.

colours = distinct_colours(len(class_names))
overlay(image, labels, colours)                                        # (H, W, 3) uint8
draw_label_map(photo, labels, class_names, rare=tail)                  # a PIL image: the overlay and its legend
draw_overlays("street.png", image, {"ground truth": labels, "CE": ce, "Softmax-EQL": eql}, class_names, rare=tail)
"""

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.pictures.colours import Colours, distinct_colours
from equigrad.analysis.pictures.predictions import scaled
from equigrad.analysis.pictures.side_by_side import side_by_side
from equigrad.analysis.pictures.text import category_text, draw_text, fitted, text_width
from equigrad.files import write_atomically

if TYPE_CHECKING:
    from PIL.Image import Image

LabelMap = NDArray[np.integer[Any]]  # (H, W); what is below 0 is ignored

_IMAGE_SIZE, _PANEL_SIZE = 1280, 640  # longer side of an overlay alone, and of one beside others
_MAX_ENTRIES = 36  # of the legend
_NAME_LENGTH = 40  # characters in a legend
_ENTRY_WIDTH = 260  # pixels
_IGNORED = 0.35  # brightness of pixels without category
_BACKGROUND_NAMES = {"background", "bg", "void", "unlabeled", "unlabelled"}


def background(class_names: Sequence[str]) -> set[int]:
    """Categories that stand for everything else, by their names, such as `__background__` or `void`."""
    return {label for label, name in enumerate(class_names) if name.strip(" _").casefold() in _BACKGROUND_NAMES}


def overlay(
    image: Colours,
    labels: LabelMap,
    colours: Colours,
    *,
    opacity: float = 0.6,
    outlined: Collection[int] = (),
    clear: Collection[int] = (),
) -> Colours:
    """The image (H, W, 3) tinted with the colours of its labels; ignored pixels are dark grey.

    Args:
        image: uint8.
        labels: 0 … C-1, or negative where ignored.
        colours: colours of the categories, (C, 3).
        opacity: opacity of the colours, 0 to 1.
        outlined: categories whose regions get a white border, such as the rare ones.
        clear: labels whose pixels stay as they are, such as the background.
    """
    if labels.shape != image.shape[:2]:
        raise ValueError(f"labels must be {image.shape[:2]} like the image, got {labels.shape}")
    if labels.size and labels.max() >= len(colours):
        raise ValueError(f"labels must be below {len(colours)}, got {labels.max()}")
    mixed = (1 - opacity) * image + opacity * colours[np.maximum(labels, 0)]
    grey = np.broadcast_to(_IGNORED * image.mean(-1, keepdims=True), image.shape)
    drawn = np.where((labels < 0)[..., None], grey, mixed)
    drawn = np.where(np.isin(labels, list(clear))[..., None], image, drawn)
    drawn[_borders(np.where(np.isin(labels, list(outlined)), labels, -1))] = 255
    return drawn.round().astype(np.uint8)


def draw_label_map(
    photo: "Image", labels: LabelMap, class_names: Sequence[str], *, rare: Collection[int] = ()
) -> "Image":
    """The photograph, tinted where a category is, with a legend below; background and label -1 stay clear.

    Args:
        photo: in RGB.
        labels: (H, W) like the photograph.
        class_names: names of all C categories.
        rare: categories that are outlined in white and marked in the legend.
    """
    from PIL import Image

    shown = scaled(photo, _IMAGE_SIZE)
    resized = np.asarray(Image.fromarray(labels.astype(np.int32)).resize(shown.size, Image.Resampling.NEAREST))
    clear = background(class_names) | {-1}
    colours = distinct_colours(len(class_names))
    drawn = overlay(np.asarray(shown), resized, colours, opacity=0.5, outlined=rare, clear=clear)
    entries = [(label, text) for label, text in legend_entries([labels], class_names, rare) if label >= 0]
    return _with_legend(Image.fromarray(drawn), entries, len(class_names), rare, clear)


def draw_overlays(
    file: str | Path,
    image: Colours,
    label_maps: Mapping[str, LabelMap],
    class_names: Sequence[str],
    *,
    rare: Collection[int] = (),
) -> None:
    """Write a PNG: the image and, beside it, each label map as an overlay with its title; one legend for all.

    Args:
        file: to write.
        image: (H, W, 3) uint8.
        label_maps: by title, the ground truth first; the legend shows its shares of pixels.
        class_names: names of all C categories.
        rare: categories that are outlined in white and marked in the legend.
    """
    from PIL import Image

    colours, clear = distinct_colours(len(class_names)), background(class_names)
    panels = {"image": image} | {
        title: overlay(image, labels, colours, outlined=rare, clear=clear) for title, labels in label_maps.items()
    }
    titles = list(panels)
    pictures = [scaled(Image.fromarray(panel), _PANEL_SIZE) for panel in panels.values()]
    num_columns = 2 if len(panels) in (2, 4) else 3
    starts = range(0, len(panels), num_columns)
    rows = [side_by_side(titles[start:][:num_columns], pictures[start:][:num_columns]) for start in starts]
    joined = Image.new("RGB", (rows[0].width, sum(row.height for row in rows)), "white")
    for number, row in enumerate(rows):
        joined.paste(row, (0, number * rows[0].height))
    entries = legend_entries(list(label_maps.values()), class_names, rare)
    content = io.BytesIO()
    _with_legend(joined, entries, len(class_names), rare, clear).save(content, "PNG")
    write_atomically(Path(file), content.getvalue())


def legend_entries(
    label_maps: Sequence[LabelMap], class_names: Sequence[str], rare: Collection[int] = ()
) -> list[tuple[int, str]]:
    """Label and text of the categories in any map, most pixels of the first map first; -1 stands for ignored pixels."""
    counts = np.array([_counts(labels, len(class_names)) for labels in label_maps])  # (maps, C + 1)
    truth, anywhere = counts[0], counts.sum(0)
    # Rare categories are listed before the cut: they matter most, and they have the fewest pixels.
    present = sorted(np.flatnonzero(anywhere[:-1]).tolist(), key=lambda label: (label not in rare, -truth[label]))
    shown = sorted(present[:_MAX_ENTRIES], key=lambda label: (-truth[label], -anywhere[label]))
    total = max(int(truth[:-1].sum()), 1)
    names = {label: category_text(class_names[label].split(";")[0], label) for label in shown}
    entries = [(label, _entry(names[label], truth[label] / total, label in rare)) for label in shown]
    if len(present) > len(shown):
        entries.append((len(class_names), f"and {len(present) - len(shown)} more"))
    return [*entries, (-1, "ignored")] if anywhere[-1] else entries


def _borders(regions: LabelMap) -> NDArray[np.bool_]:
    """Pixels (H, W) outside all regions (-1) that touch one; a border inside would hide small regions."""
    padded = np.pad(regions >= 0, 1)
    touches: NDArray[np.bool_] = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
    return touches & (regions < 0)


def _counts(labels: LabelMap, num_classes: int) -> NDArray[np.int64]:
    """Pixels of each category and, last, ignored ones, (C + 1,)."""
    return np.bincount(np.where(labels < 0, num_classes, labels).ravel(), minlength=num_classes + 1)


def _entry(name: str, share: float, is_rare: bool) -> str:
    share_text = "not there" if share == 0 else "< 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"
    shown = name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
    return f"{shown}, {share_text}{' (rare)' if is_rare else ''}"


def _with_legend(
    picture: "Image",
    entries: Sequence[tuple[int, str]],
    num_classes: int,
    rare: Collection[int],
    clear: Collection[int],
) -> "Image":
    """The picture with a legend below, in columns; a clear category has a patch without colour."""
    from PIL import Image, ImageDraw

    size = max(picture.width // 80, 14)
    longest = max((text_width(text, size) for _, text in entries), default=0)
    row_height, entry_width = size * 3 // 2, max(_ENTRY_WIDTH * size // 14, round(longest) + 3 * size)
    entry_width = max(min(entry_width, picture.width), _ENTRY_WIDTH * size // 14)
    num_columns = max(picture.width // entry_width, 1)
    num_rows = -(-len(entries) // num_columns)
    width = max(picture.width, entry_width)
    canvas = Image.new("RGB", (width, picture.height + num_rows * row_height + size // 2), "white")
    canvas.paste(picture)
    draw = ImageDraw.Draw(canvas)
    colours = distinct_colours(num_classes)
    for position, (label, text) in enumerate(entries):
        column, row = divmod(position, num_rows)
        left, top = column * entry_width + size // 3, picture.height + row * row_height + size // 2
        if label < num_classes:
            is_clear = label in clear
            fill = (
                "white" if is_clear else (round(255 * _IGNORED),) * 3 if label < 0 else tuple(colours[label].tolist())
            )
            edge = "black" if label in rare else "#9ca3af" if is_clear else fill
            draw.rectangle((left, top, left + size, top + size), fill=fill, outline=edge, width=2)
        shown = fitted(text, entry_width - 2 * size, size)
        draw_text(canvas, (left + size * 3 // 2, top + size // 2), shown, size, "#111827", is_middle=True)
    return canvas
