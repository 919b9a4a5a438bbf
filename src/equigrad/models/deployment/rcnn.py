"""A two-stage detector to deploy."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.ops import roi_align  # type: ignore[import-untyped]

from equigrad.models.deployment.suppression import NOT_A_BOX, Boxes, Suppress, best, blank, clip, kept_boxes
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.boxes import sides
from equigrad.models.detection.one_stage.predictions import join
from equigrad.models.detection.pyramids.shape import pyramid_shape
from equigrad.models.detection.two_stage.rcnn import COARSEST_ROI_STRIDE, RCNN, roi_levels
from equigrad.models.detection.two_stage.roi_head import CODER
from equigrad.models.detection.two_stage.roi_pooling import AlignedRoIPool, level_indices

PAIRS_A_BOX = 16
"""(RoI, category) pairs for each detection that is wanted: all that suppression sees, best first."""


class DeployedRCNN(nn.Module):
    """Detections of images, the same number of rows for each, with masks if the model has them.

    Args:
        model: a trained one; its losses are left out.
        suppress: how boxes are suppressed.
    """

    def __init__(self, model: RCNN, suppress: Suppress = kept_boxes) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.proposals = _Proposals(model, suppress)
        head = model.roi_heads
        strides = pyramid_shape(model.backbone).strides
        self.num_levels, roi_strides = len(strides), strides[: len(roi_levels(strides))]
        self.box_pooling = _RoIPooling(roi_strides, *_pooling_settings(head.box_roi_pool))
        self.imagenet_pooling = None
        if head.imagenet_pool is not None:
            self.imagenet_pooling = _RoIPooling((COARSEST_ROI_STRIDE,), *_pooling_settings(head.imagenet_pool))
        self.box_head, self.box_predictor = head.box_head, head.box_predictor
        self.scores, self.inference, self.num_classes = head.scores, head.inference, head.num_classes
        self.suppress = suppress
        branch = head.mask_branch
        self.mask_pooling = None if branch is None else _RoIPooling(roi_strides, *_pooling_settings(branch.roi_pool))
        self.mask_head = None if branch is None else branch.head
        self.mask_predictor = None if branch is None else branch.predictor

    def forward(self, images: Tensor, image_sizes: Tensor) -> tuple[Tensor, ...]:
        """Boxes (N, K, 4), scores (N, K), labels (N, K) and perhaps masks (N, K, M, M), best first.

        Args:
            images: (N, 3, H, W) of uint8, H and W multiples of the stride that batches are padded to.
            image_sizes: (N, 2) of int64, height and width without padding.
        """
        maps = self.backbone(images)
        proposals = self.proposals(maps[: self.num_levels], images, image_sizes)
        found = blank(self._detections(maps, proposals, image_sizes))
        if self.mask_pooling is None or self.mask_head is None or self.mask_predictor is None:
            return tuple(found)
        num_images, count = found.scores.shape
        pooled = self.mask_head(self.mask_pooling(maps, found.boxes))
        masks = self.mask_predictor(pooled, found.labels.clamp(min=0).flatten()).sigmoid()
        return (*found, masks.reshape(num_images, count, *masks.shape[1:]))

    def _detections(self, maps: list[Tensor], proposals: Boxes, image_sizes: Tensor) -> Boxes:
        num_images, num_rois = proposals.scores.shape
        vectors = self.box_head(self.box_pooling(maps, proposals.boxes))
        if self.imagenet_pooling is not None:
            pooled = self.imagenet_pooling(maps[self.num_levels :], proposals.boxes)
            vectors = torch.cat([vectors, pooled.flatten(1)], 1)
        scores = self.scores(self.box_predictor.cls_score(vectors).float())
        pairs = scores.reshape(num_images, num_rois, self.num_classes)
        is_candidate = (proposals.scores[..., None] > NOT_A_BOX) & (pairs > self.inference.score_threshold)
        pairs = pairs.where(is_candidate, NOT_A_BOX).flatten(1)
        count = min(PAIRS_A_BOX * self.inference.num_boxes, num_rois * self.num_classes)
        # In the order of the RoIs, as in `RoIInference`: of pairs with equal scores the first suppresses the others.
        indices = pairs.topk(count).indices.sort(dim=1).values
        chosen = pairs.gather(1, indices)
        rows, labels = indices // self.num_classes, indices % self.num_classes

        references = proposals.boxes.gather(1, rows[..., None].expand(-1, -1, 4))
        boxes = clip(CODER.decode(references, self._box_values(vectors, rows, labels)), image_sizes)
        chosen = chosen.where(sides(boxes).amin(2) >= self.inference.smallest_side, NOT_A_BOX)
        kept = self.suppress(boxes, chosen, labels, self.num_classes, self.inference.nms_threshold)
        return best(Boxes(boxes, chosen.where(kept, NOT_A_BOX), labels), self.inference.num_boxes)

    def _box_values(self, vectors: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
        """Values (N, n, 4) of RoIs (N, n) as the categories (N, n)."""
        num_boxes = self.box_predictor.num_boxes
        values: Tensor = self.box_predictor.bbox_pred(vectors).reshape(rows.shape[0], -1, 4)  # (N, R * num_boxes, 4)
        columns = rows * num_boxes + labels if num_boxes > 1 else rows
        return values.gather(1, columns[..., None].expand(-1, -1, 4))


class _Proposals(nn.Module):
    """What torchvision's region proposal network gives, for a batch at once."""

    def __init__(self, model: RCNN, suppress: Suppress) -> None:
        super().__init__()
        rpn: Any = model.rpn
        self.head, self.coder, self.suppress = rpn.head, DeltaCoder(), suppress
        self.nms_threshold, self.smallest_side = rpn.nms_thresh, rpn.min_size
        self.num_candidates, self.num_proposals = rpn.pre_nms_top_n(), rpn.post_nms_top_n()
        generator = rpn.anchor_generator
        generator.set_cell_anchors(torch.float32, next(rpn.head.parameters()).device)
        self.cells = list(generator.cell_anchors)

    def forward(self, maps: list[Tensor], images: Tensor, image_sizes: Tensor) -> Boxes:
        """Proposals (N, P, 4) of images (N, 3, H, W); the labels are their levels."""
        logits, values = self.head(maps)
        levels = [self._candidates(*level, images) for level in zip(logits, values, self.cells, strict=True)]
        level_of = [torch.full_like(scores, level, dtype=torch.int64) for level, (_, scores) in enumerate(levels)]
        boxes, scores = (torch.cat(parts, 1) for parts in zip(*levels, strict=True))
        boxes, labels = clip(boxes, image_sizes), torch.cat(level_of, 1)
        scores = scores.where(sides(boxes).amin(2) >= self.smallest_side, NOT_A_BOX)
        kept = self.suppress(boxes, scores, labels, len(levels), self.nms_threshold)
        return best(Boxes(boxes, scores.where(kept, NOT_A_BOX), labels), self.num_proposals)

    def _candidates(self, logits: Tensor, values: Tensor, cells: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """The best anchors of a level; those of a small level are filled up."""
        objectness = nn.functional.pad(join([logits], 1)[..., 0], (0, self.num_candidates), value=-torch.inf)
        chosen, rows = objectness.topk(self.num_candidates)
        rows = rows.clamp(max=join([logits], 1).shape[1] - 1)
        picked = join([values], 4).gather(1, rows[..., None].expand(-1, -1, 4))
        boxes = self.coder.decode(_anchors(logits, cells, images)[rows], picked)
        return boxes, chosen.sigmoid().where(chosen > -torch.inf, NOT_A_BOX)


def _anchors(logits: Tensor, cells: Tensor, images: Tensor) -> Tensor:
    """Anchors (H * W * A, 4) as torchvision places them: the stride is the rounded ratio of image and map."""
    shifts = [
        torch.arange(logits.shape[side], device=logits.device) * (images.shape[side] // logits.shape[side])
        for side in (2, 3)
    ]
    y, x = torch.meshgrid(*shifts, indexing="ij")
    corners = torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    return (corners + cells).reshape(-1, 4)


class _RoIPooling(nn.Module):
    """What `roi_pool` gives, for levels whose strides are known."""

    def __init__(self, strides: tuple[int, ...], size: int, sampling_ratio: int, aligned: bool) -> None:
        super().__init__()
        self.strides = strides
        self.size, self.sampling_ratio, self.aligned = size, sampling_ratio, aligned

    def forward(self, maps: list[Tensor], boxes: Tensor) -> Tensor:
        """Features (N * R, D, size, size) of boxes (N, R, 4)."""
        images = torch.arange(boxes.shape[0], device=boxes.device)[:, None, None].expand(-1, boxes.shape[1], 1)
        rois = torch.cat([images.to(boxes.dtype), boxes], 2).flatten(0, 1)  # (N * R, 5)
        first, last = (int(math.log2(self.strides[end])) for end in (0, -1))
        levels = level_indices(rois[:, 1:], first, last)
        pooled = maps[0].new_zeros((rois.shape[0], maps[0].shape[1], self.size, self.size))
        for level, stride in enumerate(self.strides):
            rows = (levels == level).nonzero()[:, 0]
            part = roi_align(maps[level], rois[rows], self.size, 1 / stride, self.sampling_ratio, aligned=self.aligned)
            pooled = pooled.index_copy(0, rows, part)
        return pooled


def _pooling_settings(pooling: nn.Module) -> tuple[int, int, bool]:
    """Size, sampling ratio and whether pixels are aligned, of a module that `roi_pool` made."""
    if isinstance(pooling, AlignedRoIPool):
        return pooling.size, pooling.sampling_ratio, True
    return int(pooling.output_size[0]), int(pooling.sampling_ratio), False  # type: ignore[index, arg-type]
