"""A one-stage detector to deploy."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equigrad.models.deployment.suppression import NOT_A_BOX, Boxes, Suppress, best, blank, clip, kept_boxes
from equigrad.models.detection.boxes import EPSILON, sides
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.one_stage.head import LevelOutput
from equigrad.models.detection.one_stage.inference import VOTE_OVERLAP, VOTE_SPREAD
from equigrad.models.detection.one_stage.predictions import class_logits, join

PAIRS_A_BOX = 16
"""Candidates for each detection that is wanted; see `DeployedDenseDetector`."""


class DeployedDenseDetector(nn.Module):
    """Detections of images, the same number of rows for each.

    `DenseInference` looks at up to 30,000 (anchor, category) pairs of an image, and keeps 300 boxes. Suppression goes
    from the best pair down, so the best pairs are enough if 300 of them survive: here the best 4,800.

    Args:
        model: a trained one; its loss is left out.
        num_classes: C.
        suppress: how boxes are suppressed.
    """

    def __init__(self, model: DenseDetector, num_classes: int, suppress: Suppress = kept_boxes) -> None:
        super().__init__()
        self.pyramid, self.head, self.grid = model.pyramid, model.head, model.grid
        self.coder, self.scores, self.inference = model.coder, model.scores, model.inference
        self.num_classes, self.suppress = num_classes, suppress
        # Made once now: the grid would keep what it is traced with.
        self.grid.levels([(1, 1)] * len(self.grid.strides), next(model.parameters()).device)
        self.num_candidates = PAIRS_A_BOX * self.inference.num_boxes

    def forward(self, images: Tensor, image_sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes (N, K, 4) as x1, y1, x2, y2, scores (N, K) and labels (N, K) of int64, best first.

        Args:
            images: (N, 3, H, W) of uint8, H and W multiples of the stride that batches are padded to.
            image_sizes: (N, 2) of int64, height and width without padding.
        """
        outputs: list[LevelOutput] = self.head(self.pyramid(images))
        sizes = [(output.logits.shape[2], output.logits.shape[3]) for output in outputs]
        levels = [
            self._candidates(*level) for level in zip(outputs, self.grid.levels(sizes, images.device), strict=True)
        ]
        candidates = Boxes(*(torch.cat(parts, 1) for parts in zip(*levels, strict=True)))
        # Score voting averages over all candidates, not only over the best.
        few = candidates if self.inference.score_voting else best(candidates, self.num_candidates)
        boxes, scores, labels = self._detections(few, image_sizes)
        return boxes, scores, labels

    def _candidates(self, output: LevelOutput, anchors: Tensor) -> Boxes:
        """The best (anchor, category) pairs of a level; those of a small level are filled up."""
        num_anchors = self.grid.num_anchors
        num_images, _, height, width = output.logits.shape
        scores = self.scores(class_logits(output, num_anchors).float())  # (N * A, C, H, W)
        num_classes = scores.shape[1]
        scores = scores.reshape(num_images, num_anchors, num_classes, height, width)
        scores = scores.permute(0, 3, 4, 1, 2).reshape(num_images, -1, num_classes)  # (N, H * W * A, C)
        if output.quality is not None:
            scores = scores * join([output.quality], 1).float().sigmoid()
        count = self.inference.num_candidates
        if not self.inference.score_voting:
            count = min(count, self.num_candidates)

        # The best pairs are among the anchors with the best own maximum. The padding keeps `count` a constant.
        own_best = F.pad(scores.amax(2), (0, count), value=NOT_A_BOX)
        anchor_scores, rows = own_best.topk(count)
        num_rows = height * width * num_anchors
        rows = rows.clamp(max=num_rows - 1)
        pairs = scores.gather(1, rows[..., None].expand(-1, -1, num_classes))
        pairs = pairs.where(anchor_scores[..., None] > NOT_A_BOX, NOT_A_BOX)
        chosen, indices = pairs.flatten(1).topk(count)  # (N, count)
        # Not more pairs than anchors, as in `best_pairs`.
        chosen = chosen.where(torch.arange(count, device=chosen.device) < num_rows, NOT_A_BOX)
        rows, labels = rows.gather(1, indices // num_classes), indices % num_classes

        values = join([output.boxes], 4).gather(1, rows[..., None].expand(-1, -1, 4))
        boxes = self.coder.decode(anchors[rows], values)
        root = chosen.clamp(min=0).sqrt() if self.inference.square_root else chosen
        return Boxes(boxes, root.where(chosen > NOT_A_BOX, NOT_A_BOX), labels)

    def _detections(self, candidates: Boxes, image_sizes: Tensor) -> Boxes:
        last_pixel = candidates.boxes.new_tensor([0, 0, 1, 1]) * float(self.inference.legacy_pixels)
        boxes = clip(candidates.boxes + last_pixel, image_sizes)
        scores = candidates.scores.where(sides(boxes).amin(2) > 0, NOT_A_BOX)
        kept = self.suppress(boxes, scores, candidates.labels, self.num_classes, self.inference.nms_threshold)
        found = best(Boxes(boxes, scores.where(kept, NOT_A_BOX), candidates.labels), self.inference.num_boxes)
        if self.inference.score_voting:
            found = found._replace(boxes=clip(_voted(found, Boxes(boxes, scores, candidates.labels)), image_sizes))
        return blank(found._replace(boxes=found.boxes - last_pixel))


def _voted(kept: Boxes, candidates: Boxes) -> Tensor:
    """`one_stage.inference.voted` for a batch: (N, K, 4)."""
    a, b = kept.boxes[:, :, None], candidates.boxes[:, None]
    overlap = sides(torch.cat([torch.maximum(a, b)[..., :2], torch.minimum(a, b)[..., 2:]], -1)).prod(-1)
    union = sides(a).prod(-1) + sides(b).prod(-1) - overlap
    overlaps = overlap / union.clamp(min=EPSILON)  # (N, K, n)
    same = (kept.labels[:, :, None] == candidates.labels[:, None]) & (overlaps > VOTE_OVERLAP)
    weights = torch.exp(-((1 - overlaps) ** 2) / VOTE_SPREAD) * candidates.scores.clamp(min=0)[:, None] * same
    total = weights.sum(2, keepdim=True)
    return torch.where(total > 0, weights @ candidates.boxes / total.clamp(min=1e-12), kept.boxes)
