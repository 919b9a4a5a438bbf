"""Distinguishable colours for categories."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.uint8]  # (…, 3)


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
