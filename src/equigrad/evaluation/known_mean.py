"""Means over categories of which some have no value."""

import math
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


def mean_known(values: "Tensor | NDArray[Any]") -> float:
    """Mean of the values that are not nan; nan if there are none."""
    known = values[values == values]  # nan is unequal to itself, in both libraries
    return float(known.mean()) if len(known) else math.nan
