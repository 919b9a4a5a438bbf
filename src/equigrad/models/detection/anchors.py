"""Anchors: the boxes from which a dense detector predicts, one set for each cell of each pyramid level."""

from collections.abc import Sequence

import torch
from torch import Tensor

OCTAVE_SCALES = tuple(4 * 2 ** (third / 3) for third in range(3))
"""RetinaNet: base 4, three scales an octave; with the ratios (0.5, 1, 2) nine anchors a cell."""


class AnchorGrid:
    """Anchors of every level, in the order y, x, ratio, scale (the last one fastest).

        AnchorGrid(strides, OCTAVE_SCALES, ratios=(0.5, 1.0, 2.0))  # RetinaNet
        AnchorGrid(strides, (8,))  # ATSS; the improved baseline has (6, 8), YOLOX* (3, 4)
        AnchorGrid(strides)  # FCOS, YOLOX: the cells; their centres are the points, their width is the stride

    Args:
        strides: pixels between two cells, for each level.
        scales: sides of the anchors in strides.
        ratios: height / width; the area stays that of the square.
        centre_offset: position of the centres in their cells: 0.5, or 0 for the top left corner.
        whole_pixels: sides of the square are cut, and corners rounded, to whole pixels, as in torchvision.
        legacy_pixels: anchors end on pixel x2, 1 less, and their shapes are rounded at scale 1 (see `boxes`): with
            offset 0.5 the corners are integers, as in the published improved baseline.
    """

    def __init__(
        self,
        strides: Sequence[int],
        scales: Sequence[float] = (1.0,),
        *,
        ratios: Sequence[float] = (1.0,),
        centre_offset: float = 0.5,
        whole_pixels: bool = False,
        legacy_pixels: bool = False,
    ) -> None:
        for name, values in {"strides": strides, "scales": scales, "ratios": ratios}.items():
            if not values or min(values) <= 0:
                raise ValueError(f"{name} must be one or more numbers above 0, got {list(values)}")
        self.strides = tuple(strides)
        self.scales = tuple(scales)
        self.ratios = tuple(ratios)
        self.centre_offset = centre_offset
        self.whole_pixels = whole_pixels
        self.legacy_pixels = legacy_pixels
        self._latest: tuple[object, list[Tensor]] | None = None
        self._shapes: dict[torch.device, list[Tensor]] = {}

    @property
    def num_anchors(self) -> int:
        """A: anchors of a cell."""
        return len(self.scales) * len(self.ratios)

    def __call__(
        self,
        feature_sizes: Sequence[tuple[int, int]],
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> list[Tensor]:
        """Anchors (H * W * A, 4) of each level, whose feature maps are of `feature_sizes` (H, W).

        The latest result is cached, because sizes repeat. Do not change the tensors in place.
        """
        device = torch.get_default_device() if device is None else torch.device(device)
        key = (tuple(map(tuple, feature_sizes)), device, dtype)
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self.levels(feature_sizes, device, dtype)
        return self._latest[1]

    def levels(
        self, feature_sizes: Sequence[tuple[int, int]], device: torch.device, dtype: torch.dtype = torch.float32
    ) -> list[Tensor]:
        """The same without a cache, for symbolic sizes of an exported model."""
        if len(feature_sizes) != len(self.strides):
            raise ValueError(f"expected feature sizes of {len(self.strides)} levels, got {len(feature_sizes)}")
        # Made on the device: copying them from the host would wait whenever the size of a batch changes.
        made_on = torch.device("cpu") if device.type == "mps" else device  # Apple's GPUs have no float64
        levels = zip(self.strides, feature_sizes, self._shapes_on(made_on), strict=True)
        return [self._level(*level).to(device, dtype) for level in levels]

    def _level(self, stride: int, size: tuple[int, int], shapes: Tensor) -> Tensor:
        steps = (torch.arange(length, dtype=torch.float64, device=shapes.device) for length in size)
        y, x = ((step + self.centre_offset) * stride for step in steps)
        centres = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)  # (H, W, 2)
        cells = torch.cat([centres, centres], -1)[:, :, None]  # (H, W, 1, 4)
        return (cells + shapes).reshape(-1, 4)

    def _shapes_on(self, device: torch.device) -> list[Tensor]:
        """Anchors (A, 4) of a cell of each level, relative to its centre; copied to a device once."""
        if device not in self._shapes:
            self._shapes[device] = [self._around_centre(stride).to(device) for stride in self.strides]
        return self._shapes[device]

    def _around_centre(self, stride: int) -> Tensor:
        """Anchors (A, 4) of a cell, relative to their centre."""
        ratios = torch.tensor(self.ratios, dtype=torch.float64)
        if self.whole_pixels:
            squares = torch.tensor([int(stride * scale) for scale in self.scales], dtype=torch.float64)
            sizes = torch.stack([1 / ratios.sqrt(), ratios.sqrt()], -1)[:, None] * squares[None, :, None]
            corners = (sizes / 2).round()
            return torch.cat([-corners, corners], -1).reshape(-1, 4)
        widths = stride / ratios.sqrt()
        heights = widths * ratios
        if self.legacy_pixels:
            widths = widths.round()
            heights = (widths * ratios).round()
        scales = torch.tensor(self.scales, dtype=torch.float64)
        half = torch.stack([widths, heights], -1)[:, None] * scales[None, :, None] / 2  # (ratios, scales, 2)
        return torch.cat([-half, half - float(self.legacy_pixels)], -1).reshape(-1, 4)
