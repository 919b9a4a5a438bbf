"""From the outputs of a dense head to detections: the best (anchor, category) pairs of each level, then NMS."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import batched_nms  # type: ignore[import-untyped]

from equigrad.models.detection.boxes import clip, pairwise_iou, sides
from equigrad.models.detection.one_stage.head import LevelOutput
from equigrad.models.detection.one_stage.predictions import BoxCoder, class_logits
from equigrad.models.scores import Scores

VOTE_SPREAD = 0.025  # sigma_t^2 of the published score voting
VOTE_OVERLAP = 0.01


class Candidates(NamedTuple):
    """(Anchor, category) pairs of one image."""

    boxes: Tensor  # (n, 4)
    scores: Tensor  # (n,)
    labels: Tensor  # (n,)


@dataclass(frozen=True)
class DenseInference:
    """How detections are chosen. There is no score threshold: one-stage scores of rare categories are low.

    Args:
        nms_threshold: IoU above which the lower of two boxes of a category is dropped.
        num_candidates: pairs a level, and not more than it has anchors.
        num_boxes: detections an image.
        square_root: whether a score is the geometric mean of category score and quality instead of their product.
        score_voting: whether each box becomes the mean of the candidates around it, as in PAA.
        legacy_pixels: whether boxes end on pixel x2 (see `equigrad.models.detection.boxes`).
    """

    nms_threshold: float = 0.5
    num_candidates: int = 1000
    num_boxes: int = 300
    square_root: bool = False
    score_voting: bool = False
    legacy_pixels: bool = False

    @torch.no_grad()
    def __call__(
        self,
        outputs: Sequence[LevelOutput],
        anchors: Sequence[Tensor],
        coder: BoxCoder,
        scores: Scores,
        image_sizes: Sequence[tuple[int, int]],
    ) -> list[dict[str, Tensor]]:
        """Boxes (n, 4), scores (n,) and labels (n,) of every image, best first.

        Args:
            outputs: outputs of the head, level by level.
            anchors: (H * W * A, 4) of each level.
            coder: decodes the box values.
            scores: from logits to scores.
            image_sizes: (height, width) without padding, at which boxes are cut.
        """
        detections = []
        for image, size in enumerate(image_sizes):
            levels = [
                self._candidates(_select_image(output, image), boxes, coder, scores)
                for output, boxes in zip(outputs, anchors, strict=True)
            ]
            candidates = Candidates(*(torch.cat(parts) for parts in zip(*levels, strict=True)))
            detections.append(self._detections(candidates, size)._asdict())
        return detections

    def _candidates(self, output: LevelOutput, anchors: Tensor, coder: BoxCoder, scores: Scores) -> Candidates:
        num_anchors = output.boxes.shape[1] // 4
        # Half precision rounds close scores to ties.
        pair_scores = scores(class_logits(output, num_anchors).float())  # (A, C, H, W)
        if output.quality is not None:
            pair_scores = pair_scores * output.quality.float().sigmoid().transpose(0, 1)
        chosen, anchor_indices, labels = best_pairs(pair_scores.flatten(2), self.num_candidates)
        num_locations = pair_scores[0, 0].numel()
        # From (anchor, location) order, that of the channels, to (location, anchor) order, that of the anchors.
        indices = anchor_indices.remainder(num_locations) * num_anchors + anchor_indices // num_locations
        values = output.boxes.reshape(num_anchors, 4, -1).permute(2, 0, 1).reshape(-1, 4)[indices]
        chosen = chosen.sqrt() if self.square_root else chosen
        return Candidates(coder.decode(anchors[indices], values), chosen, labels)

    def _detections(self, candidates: Candidates, size: tuple[int, int]) -> Candidates:
        last_pixel = candidates.boxes.new_tensor([0, 0, 1, 1])
        boxes = clip(candidates.boxes + last_pixel if self.legacy_pixels else candidates.boxes, size)
        has_area = sides(boxes).amin(1) > 0
        inside = Candidates(boxes[has_area], candidates.scores[has_area], candidates.labels[has_area])
        kept = batched_nms(*inside, self.nms_threshold)[: self.num_boxes]
        best = Candidates(*(values[kept] for values in inside))
        if self.score_voting:
            # A mean of boxes inside the image may be a rounding error outside.
            best = best._replace(boxes=clip(voted(best, inside), size))
        return best._replace(boxes=best.boxes - last_pixel) if self.legacy_pixels else best


def best_pairs(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best (anchor, category) pairs by scores (A, C, M), and not more than A * M.

    Exact, and without sorting all pairs: they are among the anchors with the best own maximum, and none is below the
    lowest of these maxima.

    Returns:
        Scores (n,), anchors (n,) as indices into A * M, and categories (n,).
    """
    num_locations = scores.shape[2]
    own_best = scores.amax(1).flatten()  # (A * M,)
    count = min(count, own_best.numel())
    best = own_best.topk(count)
    anchors = best.indices.sort().values  # ascending, for locality in memory
    rows = scores[anchors // num_locations, :, anchors % num_locations]  # (count, C)
    pairs = (rows >= best.values[-1]).nonzero()
    values = rows[pairs[:, 0], pairs[:, 1]]
    top = values.topk(min(count, len(values))).indices
    return values[top], anchors[pairs[top, 0]], pairs[top, 1]


def voted(kept: Candidates, candidates: Candidates) -> Tensor:
    """Kept boxes as means of the candidates of their category, by score and overlap (Kim and Lee, PAA, 2020)."""
    overlaps = pairwise_iou(kept.boxes, candidates.boxes)  # (n, m)
    counts = (kept.labels[:, None] == candidates.labels) & (overlaps > VOTE_OVERLAP)
    weights = torch.exp(-((1 - overlaps) ** 2) / VOTE_SPREAD) * candidates.scores * counts
    total = weights.sum(1, keepdim=True)
    return torch.where(total > 0, weights @ candidates.boxes / total.clamp(min=1e-12), kept.boxes)


def _select_image(output: LevelOutput, image: int) -> LevelOutput:
    one = slice(image, image + 1)
    return LevelOutput(output.logits[one], output.boxes[one], None if output.quality is None else output.quality[one])
