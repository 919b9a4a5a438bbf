"""SimOTA of YOLOX: points are assigned to objects by their current cost; how many depends on the predictions."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad.models.detection.assignment.centre import centre_distances, side_distances
from equigrad.models.detection.assignment.max_iou import Assignment, all_background, assign, lowest_columns
from equigrad.models.detection.boxes import at_least_float32, centres, pairwise_iou, sides

OUTSIDE = 1e5  # cost of a point that is not near the centre of the object, and inside it: a last resort
LOWEST_LOG = -100.0  # log(0), as binary cross-entropy in torch has it


class SimOTAAssigner:
    """Simplified optimal transport (YOLOX).

    Points inside some object, or within `radius` strides of its centre, are candidates. An object gets the
    k cheapest of them, k being the sum of its `num_overlaps` highest IoU with the predicted boxes, rounded down, at
    least 1. cost = binary cross-entropy + `overlap_weight` * -log IoU (+ OUTSIDE). A point that several objects want
    goes to the one it costs least.

    Args:
        radius: in strides.
        num_overlaps: IoU that are summed for k; the most points an object gets.
        overlap_weight: weight of -log IoU in the cost.
    """

    def __init__(self, radius: float = 2.5, num_overlaps: int = 10, overlap_weight: float = 3.0) -> None:
        if radius <= 0 or num_overlaps < 1:
            raise ValueError(f"expected radius > 0 and num_overlaps >= 1, got {radius} and {num_overlaps}")
        self.radius = radius
        self.num_overlaps = num_overlaps
        self.overlap_weight = overlap_weight

    @torch.no_grad()
    def __call__(
        self,
        cells_per_level: Sequence[Tensor],
        boxes: Tensor,
        labels: Tensor,
        predicted: Tensor,
        logits_at: Callable[[Tensor], Tensor],
        objectness: Tensor,
    ) -> Assignment:
        """Assignment of the cells of an image to its objects.

        Args:
            cells_per_level: (n_l, 4) of each level, P in all (see `AnchorGrid`).
            boxes: (G, 4) of the objects.
            labels: (G,) their categories.
            predicted: (P, 4) predicted boxes, decoded.
            logits_at: gives the logits (n, C) of the categories at cells (n,); called for few of the P cells.
            objectness: (P,) logits.
        """
        cells = torch.cat(list(cells_per_level))
        if not len(boxes):
            return all_background(len(cells), labels)
        is_candidate, is_central = self._candidates(cells, boxes)
        candidates = is_candidate.nonzero()[:, 0]
        overlaps = pairwise_iou(boxes, predicted[candidates])  # (G, n)
        cost = classification_cost(logits_at(candidates), objectness[candidates], labels)
        cost -= self.overlap_weight * (overlaps + 1e-8).log_()  # 1e-8: published
        cost += OUTSIDE * ~is_central[candidates].T
        matched = torch.full((len(cells),), -1, device=labels.device)
        matched[candidates] = self._match(cost, overlaps)
        return assign(matched, labels)

    def _candidates(self, cells: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Whether a cell is a candidate of any object (P,), and whether it is inside and central in each (P, G)."""
        inside = side_distances(centres(cells), boxes)[0] > 0
        near = centre_distances(centres(cells), boxes) < self.radius * sides(cells)[:, :1]
        return (inside | near).any(1), inside & near

    def _match(self, cost: Tensor, overlaps: Tensor) -> Tensor:
        """Matched object (n,) of the candidates from cost and IoU, (G, n) each."""
        if not cost.shape[1]:
            return torch.empty(0, dtype=torch.int64, device=cost.device)
        highest = overlaps.topk(min(self.num_overlaps, overlaps.shape[1])).values
        counts = highest.sum(1).int().clamp(min=1)
        columns, wanted = lowest_columns(cost, counts, self.num_overlaps)
        claimed = torch.zeros_like(cost, dtype=torch.bool).scatter(1, columns, wanted)
        # Published: of *all* objects, also of those that did not want it, the cheapest gets a contested point.
        contested = claimed.sum(0) > 1
        matched = torch.where(contested, cost.argmin(0), claimed.int().argmax(0))
        return matched.masked_fill(~claimed.any(0), -1)


def classification_cost(logits: Tensor, objectness: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy (G, n), summed over categories, if candidates (n, C) were of the categories labels (G,).

    p = sqrt(sigmoid(logit) * sigmoid(objectness)). All categories as negatives, once for each candidate, then the one
    of the object corrected: no tensor (G, n, C).
    """
    log_p = (F.logsigmoid(at_least_float32(logits)) + F.logsigmoid(at_least_float32(objectness))[:, None]) / 2
    log_not_p = torch.expm1(log_p).neg_().log_().clamp_(min=LOWEST_LOG)
    correction = log_not_p[:, labels] - log_p[:, labels].clamp_(min=LOWEST_LOG)  # (n, G)
    return correction.T - log_not_p.sum(1)
