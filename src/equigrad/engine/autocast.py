"""Mixed precision for Fabric, leaving the inputs alone."""

from typing import Any

from lightning.fabric.plugins import MixedPrecision
from typing_extensions import override


class Autocast(MixedPrecision):
    """Autocast of the forward pass, with a scaler for fp16.

    Fabric's own plugin first rounds every float it is given to half precision, the boxes of the targets too: bf16 has
    8 bits, so that a coordinate of 1,000 would move by up to 2 pixels. Autocast casts what it needs by itself.
    """

    @override
    def convert_input(self, data: Any) -> Any:
        """Inputs keep their precision."""
        return data


def precision_plugin(precision: str, accelerator: str) -> Autocast | None:
    """The plugin for "32", "bf16" or "fp16"."""
    if precision == "32":
        return None
    if precision not in ("bf16", "fp16"):
        raise ValueError(f'precision must be "32", "bf16" or "fp16", got {precision!r}')
    return Autocast("bf16-mixed" if precision == "bf16" else "16-mixed", device=accelerator)
