"""The predictions for every test image: its five best categories, stored in the run folder.

predictions/test.npz    paths (N,), labels (N,), top (N, 5) categories, scores (N, 5), class_names (C,)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigrad.engine.distributed import gather_objects

NUM_BEST = 5


class TopPredictions:
    """Collects the best categories of each image; several ranks share the work."""

    def __init__(self) -> None:
        self._batches: list[dict[str, NDArray[Any]]] = []

    def add(self, predictions: Sequence[Mapping[str, Tensor]], targets: Mapping[str, Any]) -> None:
        """Add predictions, one `{"scores": (C,)}` an image, and their targets with index, path and label."""
        scores = torch.stack([prediction["scores"] for prediction in predictions]).float().cpu()
        best = scores.topk(min(NUM_BEST, scores.shape[1]))
        self._batches.append(
            {
                "index": np.asarray(targets["index"]),
                "paths": np.asarray(targets["paths"], dtype=np.str_),
                "labels": np.asarray(targets["labels"]),
                "top": best.indices.numpy().astype(np.int32),
                "scores": best.values.numpy(),
            }
        )

    def gathered(self) -> dict[str, NDArray[Any]]:
        """Those of all ranks in the order of the test set; every rank must call."""
        batches = [batch for batches in gather_objects(self._batches) for batch in batches]
        joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
        order = np.argsort(joined.pop("index"), kind="stable")
        return {name: values[order] for name, values in joined.items()}
