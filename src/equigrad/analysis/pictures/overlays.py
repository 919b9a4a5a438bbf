"""Label maps drawn over their image: ground truth beside the predictions of runs, with a legend of what is there.

colours = distinct_colours(len(class_names))
overlay(image, labels, colours)                                        # (H, W, 3) uint8
draw_overlays("street.png", image, {"ground truth": labels, "CE": ce, "Softmax-EQL": eql}, class_names, rare=tail)
"""

import io
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.files import write_atomically

Colours = NDArray[np.uint8]  # (…, 3)
LabelMap = NDArray[np.integer[Any]]  # (H, W); what is below 0 is ignored

_PANEL_WIDTH, _ROW_HEIGHT, _DPI = 4.2, 0.17, 150  # inches
_PATCH_WIDTH, _LETTER = 0.6, 0.065  # inches of an entry of the legend
_MAX_ENTRIES = 36  # of the legend
_IGNORED = 0.35  # brightness of pixels without category
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "text.parse_math": False,  # names of categories and runs are not formulas
}


def overlay(
    image: Colours, labels: LabelMap, colours: Colours, *, opacity: float = 0.6, outlined: Collection[int] = ()
) -> Colours:
    """The image (H, W, 3) tinted with the colours of its labels; ignored pixels are dark grey.

    Args:
        image: uint8.
        labels: 0 … C-1, or negative where ignored.
        colours: of the categories, (C, 3).
        opacity: of the colours, 0 to 1.
        outlined: categories whose regions get a white border, such as the rare ones.
    """
    if labels.shape != image.shape[:2]:
        raise ValueError(f"labels must be {image.shape[:2]} like the image, got {labels.shape}")
    if labels.size and labels.max() >= len(colours):
        raise ValueError(f"labels must be below {len(colours)}, got {labels.max()}")
    is_ignored = (labels < 0)[..., None]
    mixed = (1 - opacity) * image + opacity * colours[np.maximum(labels, 0)]
    grey = np.broadcast_to(_IGNORED * image.mean(-1, keepdims=True), image.shape)
    drawn = np.where(is_ignored, grey, mixed)
    drawn[_borders(np.where(np.isin(labels, list(outlined)), labels, -1))] = 255
    return drawn.round().astype(np.uint8)


def draw_overlays(
    file: str | Path,
    image: Colours,
    label_maps: Mapping[str, LabelMap],
    class_names: Sequence[str],
    *,
    rare: Collection[int] = (),
) -> None:
    """Write `overlays_png` to a file."""
    write_atomically(Path(file), overlays_png(image, label_maps, class_names, rare=rare))


def overlays_png(
    image: Colours, label_maps: Mapping[str, LabelMap], class_names: Sequence[str], *, rare: Collection[int] = ()
) -> bytes:
    """The image and, beside it, each label map as an overlay with its title; one legend for all.

    Args:
        image: (H, W, 3) uint8.
        label_maps: by title, the ground truth first; the legend shows its shares of pixels.
        class_names: of all C categories.
        rare: categories that are outlined in white and marked in the legend.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = distinct_colours(len(class_names))
    panels = {"image": image}
    panels |= {title: overlay(image, labels, colours, outlined=rare) for title, labels in label_maps.items()}
    num_columns = min(len(panels), 2) if len(panels) in (2, 4) else min(len(panels), 3)
    num_rows = -(-len(panels) // num_columns)
    entries = legend_entries(list(label_maps.values()), class_names, rare)
    longest = max((len(text) for _, text in entries), default=0)
    legend_columns = max(1, min(2 * num_columns, int(_PANEL_WIDTH * num_columns / (_PATCH_WIDTH + longest * _LETTER))))
    legend_height = 0.25 + _ROW_HEIGHT * -(-len(entries) // legend_columns)
    panel_height = 0.25 + _PANEL_WIDTH * image.shape[0] / image.shape[1]
    with rc_context(_STYLE):  # type: ignore[arg-type]  # newer stubs list every key
        figure = Figure(
            figsize=(_PANEL_WIDTH * num_columns, num_rows * panel_height + legend_height),
            dpi=_DPI,
            layout="constrained",
        )
        FigureCanvasAgg(figure)  # without pyplot, the caller's windows and backend do not change
        axes = figure.subplots(num_rows, num_columns, squeeze=False).ravel().tolist()
        for panel in axes:
            panel.set_axis_off()
        for panel, (title, picture) in zip(axes, panels.items(), strict=False):
            panel.imshow(picture, interpolation="nearest")
            panel.set_title(title)
        figure.legend(
            handles=[_patch(label, text, colours, rare) for label, text in entries],
            loc="outside lower left",
            ncols=legend_columns,
            frameon=False,
            fontsize=8,
        )
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


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
    entries = [(label, _entry(class_names[label], truth[label] / total, label in rare)) for label in shown]
    if len(present) > len(shown):
        entries.append((len(class_names), f"and {len(present) - len(shown)} more"))
    return [*entries, (-1, "ignored")] if anywhere[-1] else entries


@lru_cache
def distinct_colours(num_classes: int) -> Colours:
    """(C, 3) distinct colours, none grey or dark: each has the largest perceived distance from all before it.

    The colour of a category does not depend on the number of categories after it.
    """
    levels = np.linspace(0, 255, 14).round()
    candidates = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(-1, 3)
    lab = _to_lab(candidates)
    chroma = np.hypot(lab[:, 1], lab[:, 2])
    vivid = (lab[:, 0] > 30) & (lab[:, 0] < 92) & (chroma > 25)
    candidates, lab = candidates[vivid], lab[vivid]
    chosen = [int(np.abs(lab - (55, 65, 45)).sum(1).argmin())]  # a red to begin with
    distances = np.full(len(lab), np.inf)
    while len(chosen) < num_classes:
        distances = np.minimum(distances, np.linalg.norm(lab - lab[chosen[-1]], axis=1))
        # When all candidates are used, the colours repeat.
        chosen.append(int(distances.argmax()) if distances.any() else chosen[len(chosen) % len(lab)])
    colours: Colours = candidates[chosen[:num_classes]].astype(np.uint8)
    colours.setflags(write=False)
    return colours


def _to_lab(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* of sRGB values (…, 3) in 0..255, for white D65."""
    values = colours / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = linear @ to_xyz.T / (0.9505, 1.0, 1.089)
    cube = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = np.moveaxis(cube, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def _borders(regions: LabelMap) -> NDArray[np.bool_]:
    """Pixels (H, W) outside all regions (-1) that touch one; a border inside would hide small regions."""
    padded = np.pad(regions >= 0, 1)
    touches: NDArray[np.bool_] = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
    return touches & (regions < 0)


def _counts(labels: LabelMap, num_classes: int) -> NDArray[np.int64]:
    """Pixels of each category and, last, ignored ones, (C + 1,)."""
    return np.bincount(np.where(labels < 0, num_classes, labels).ravel(), minlength=num_classes + 1)


def _entry(name: str, share: float, is_rare: bool) -> str:
    plain = " ".join(name.split(";")[0].split())
    share_text = "not there" if share == 0 else "< 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"
    return f"{plain[:28]}, {share_text}{' (rare)' if is_rare else ''}"


def _patch(label: int, text: str, colours: Colours, rare: Collection[int]) -> Any:
    from matplotlib.patches import Patch

    if label >= len(colours):
        return Patch(facecolor="none", edgecolor="none", label=text)
    face = (_IGNORED,) * 3 if label < 0 else tuple(colours[label] / 255)
    is_rare = label in rare
    return Patch(facecolor=face, edgecolor="black" if is_rare else face, linewidth=1.2 if is_rare else 0.5, label=text)
