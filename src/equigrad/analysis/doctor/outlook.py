"""How much an equalization loss is forecast to raise the category mean, and which one to try for a task.

The forecast is fitted to the training sets of docs/evidence/outlook.csv; docs/doctor.md says how its form was chosen.
`equigrad compare` measures.
"""

import math
from typing import NamedTuple

from equigrad.analysis.doctor.tail import Tail

POINTS_PER_TENFOLD = 1.6
"""Points gained for each factor of ten between the counts, if all tested categories have few training images."""

SPREAD = 0.5
"""Four of five gains are within this share of the forecast, apart from the noise of their measurement."""

WORTHWHILE = 1.0
"""Points. A smaller forecast is no reason to leave the plain loss."""


class Forecast(NamedTuple):
    """Percentage points of category mean that Softmax-EQL gains over CE; four of five gains are in the interval."""

    gain: float
    low: float
    high: float


def forecast(imbalance: float, tested_few: float, points_per_tenfold: float = POINTS_PER_TENFOLD) -> Forecast:
    """The gain from two numbers of a `Tail`."""
    gain = points_per_tenfold * math.log10(imbalance) * math.sqrt(tested_few)
    return Forecast(gain, (1 - SPREAD) * gain, (1 + SPREAD) * gain)


class Record(NamedTuple):
    """How many measured gains were in the interval of their forecast, widened by the noise of the measurement."""

    num_inside: int
    num_measured: int
