"""Which test images best show how a category changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.report.examples import NUM_IMAGES


@dataclass(frozen=True)
class Wanted:
    """A category whose images are wanted."""

    label: int  # output of the model
    run: int  # that is compared with the first
    is_gain: bool  # the run does better than the first

    def best(self, scores: NDArray[np.float64]) -> Sequence[int]:
        """Images in which the runs differ most in the wanted direction, then those both do well on.

        Args:
            scores: (R, N) how well each run does on each image.
        """
        change = scores[self.run] - scores[0]
        order = np.lexsort((-scores[self.run], -change if self.is_gain else change))
        return [int(index) for index in order[:NUM_IMAGES]]
