"""torchvision's detectors: Faster, Mask and Keypoint R-CNN, RetinaNet and FCOS with a loss and scores of `equigrad`.

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(weights="DEFAULT")
    loss = equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(10))
    equalize(model, loss, equigrad.SigmoidObjectnessScores(), num_classes=10)

Anchors, proposals, boxes, masks and the training loop stay torchvision's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torchvision.models.detection import FCOS, FasterRCNN, RetinaNet  # type: ignore[import-untyped]
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor  # type: ignore[import-untyped]
from torchvision.models.detection.fcos import FCOSClassificationHead, FCOSHead  # type: ignore[import-untyped]
from torchvision.models.detection.mask_rcnn import MaskRCNNPredictor  # type: ignore[import-untyped]
from torchvision.models.detection.retinanet import RetinaNetClassificationHead  # type: ignore[import-untyped]
from torchvision.models.detection.roi_heads import (  # type: ignore[import-untyped]
    RoIHeads,
    fastrcnn_loss,
    keypointrcnn_loss,
    maskrcnn_loss,
)
from torchvision.ops import batched_nms, clip_boxes_to_image, remove_small_boxes  # type: ignore[import-untyped]

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses import CategoryLoss, WithObjectness
from equigrad.models.scores import Scores, SigmoidScores, bias_for_prior
from equigrad.statistics import find_statistics, one_batch

Target = Mapping[str, Tensor]
ROI_PRIOR = 0.001
"""Probability that each sigmoid of the paper's two-stage detectors starts with."""
DENSE_PRIOR = 0.01
"""The same of torchvision's RetinaNet and FCOS."""


def equalize(
    model: nn.Module,
    loss: CategoryLoss | WithObjectness,
    scores: Scores,
    *,
    num_classes: int | None = None,
    first_label: int = 1,
) -> None:
    """Change a detector in place: its classes are trained with the loss, and detected with the scores.

    Load weights first. The classifier of an R-CNN gets new weights, because the columns of a softmax with background
    become those that the scores need. The classifiers of RetinaNet and FCOS are sigmoids already and keep their
    weights if their columns stay the same.
    Call it before the optimiser is built.

    Args:
        model: `FasterRCNN` and what derives from it, `RetinaNet` or `FCOS` of torchvision.
        loss: for C categories; it becomes a part of the model and of its `state_dict`.
        scores: what belongs to the loss, such as `SigmoidScores`, or `SigmoidObjectnessScores` for `WithObjectness`.
        num_classes: C, to build new layers for categories of your own; None keeps those of the model.
        first_label: the label of the first category in your targets. Always 1 in an R-CNN. RetinaNet and FCOS of
            torchvision count from 1 too where they were built for C + 1 classes, as their published weights were;
            say 0 if you built them for C classes.
    """
    _require_loss(loss)
    if isinstance(model, FasterRCNN):
        if first_label != 1:
            raise ValueError("the labels of an R-CNN of torchvision start at 1, 0 is its background")
        _require_first(model.roi_heads)
        _equalize_rois(model.roi_heads, loss, scores, num_classes)
    elif isinstance(model, RetinaNet | FCOS):
        _require_first(model.head.classification_head)
        _equalize_dense(model.head, loss, scores, num_classes, first_label)
    else:
        raise TypeError(f"model must be a FasterRCNN, RetinaNet or FCOS of torchvision, got {type(model).__name__}")


class EqualizedRoIHeads(RoIHeads):  # type: ignore[misc]
    """torchvision's second stage with a loss and scores that are passed in."""

    classification_loss: nn.Module
    scores: Scores

    def forward(
        self,
        features: dict[str, Tensor],
        proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
        targets: list[dict[str, Tensor]] | None = None,
    ) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
        """Detections and losses, one of them empty."""
        if not self.training:
            found, losses = super().forward(features, proposals, image_shapes, targets)
            return found, losses
        rois, matches, labels, box_targets = self.select_training_samples(proposals, targets)
        logits, boxes = self.box_predictor(self.box_head(self.box_roi_pool(features, rois, image_shapes)))
        categories = torch.cat(labels) - 1  # 0 is torchvision's background, -1 ours
        loss = self.classification_loss(logits, categories, normalizer=max(1, len(logits)))
        # Of the two losses of torchvision's function only that of the boxes is wanted.
        _, box_loss = fastrcnn_loss(boxes.new_zeros(len(boxes), boxes.shape[1] // 4), boxes, labels, box_targets)
        losses = {"loss_classifier": loss, "loss_box_reg": box_loss}
        is_object = [of_image > 0 for of_image in labels]
        object_rois = [roi[mask] for roi, mask in zip(rois, is_object, strict=True)]
        object_matches = [match[mask] for match, mask in zip(matches, is_object, strict=True)]
        if self.has_mask():
            pooled = self.mask_roi_pool(features, object_rois, image_shapes)
            masks = self.mask_predictor(self.mask_head(pooled))
            truth = [[target[name] for target in targets or ()] for name in ("masks", "labels")]
            losses["loss_mask"] = maskrcnn_loss(masks, object_rois, *truth, object_matches)
        if self.has_keypoint():
            pooled = self.keypoint_roi_pool(features, object_rois, image_shapes)
            points = self.keypoint_predictor(self.keypoint_head(pooled))
            true_points = [target["keypoints"] for target in targets or ()]
            losses["loss_keypoint"] = keypointrcnn_loss(points, object_rois, true_points, object_matches)
        return [], losses

    def postprocess_detections(
        self,
        class_logits: Tensor,
        box_regression: Tensor,
        proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Boxes, scores and labels of each image, by the scores instead of a softmax with background."""
        counts = [len(of_image) for of_image in proposals]
        all_boxes = self.box_coder.decode(box_regression, proposals)[:, 1:].split(counts)
        all_scores = torch.split(self.scores(class_logits), counts)
        found = [
            self._detections(boxes, scores, shape)
            for boxes, scores, shape in zip(all_boxes, all_scores, image_shapes, strict=True)
        ]
        boxes, scores, labels = ([of_image[part] for of_image in found] for part in range(3))
        return boxes, scores, labels

    def _detections(self, boxes: Tensor, scores: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
        rows, columns = (scores > self.score_thresh).nonzero(as_tuple=True)
        boxes, scores, labels = clip_boxes_to_image(boxes[rows, columns], shape), scores[rows, columns], columns + 1
        kept = remove_small_boxes(boxes, min_size=1e-2)
        boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
        kept = batched_nms(boxes, scores, labels, self.nms_thresh)[: self.detections_per_img]
        return boxes[kept], scores[kept], labels[kept]


class _EqualizedColumns:
    """The classification head of a dense detector, whose logits become what torchvision takes the sigmoid of."""

    scores: Scores
    first_label: int
    training: bool

    def forward(self, x: list[Tensor]) -> Tensor:
        """Logits (B, A, K) in training, otherwise those of the scores, by the labels of the data set."""
        logits: Tensor = super().forward(x)  # type: ignore[misc]
        if self.training:
            return logits
        if not isinstance(self.scores, SigmoidScores):
            logits = self.scores(logits.flatten(0, 1)).logit().view(*logits.shape[:2], -1)
        elif self.first_label:
            logits = logits[..., self.first_label :]
        return nn.functional.pad(logits, (self.first_label, 0), value=-torch.inf)


class EqualizedRetinaNetHead(_EqualizedColumns, RetinaNetClassificationHead):  # type: ignore[misc]
    """torchvision's classification head with a loss that is passed in."""

    classification_loss: nn.Module
    BETWEEN_THRESHOLDS: int

    def compute_loss(
        self, targets: Sequence[Target], head_outputs: Mapping[str, Tensor], matched_idxs: Sequence[Tensor]
    ) -> Tensor:
        """The mean over images; each is divided by its own positives, as torchvision does."""
        logits = _category_columns(head_outputs["cls_logits"], self)
        losses = []
        with one_batch(self.classification_loss, joins=True):
            for target, matches, of_image in zip(targets, matched_idxs, logits, strict=True):
                labels = _dense_labels(target, matches, self.first_label)
                labels = torch.where(matches == self.BETWEEN_THRESHOLDS, IGNORE, labels)
                divisor = len(targets) * (matches >= 0).sum().clamp(min=1).double()
                losses.append(self.classification_loss(of_image, labels, normalizer=divisor))
        return torch.stack(losses).sum()


class EqualizedFCOSColumns(_EqualizedColumns, FCOSClassificationHead):  # type: ignore[misc]
    """torchvision's classification head, whose loss is that of `EqualizedFCOSHead`."""


class EqualizedFCOSHead(FCOSHead):  # type: ignore[misc]
    """torchvision's head with a classification loss that is passed in."""

    classification_loss: nn.Module

    def compute_loss(
        self,
        targets: Sequence[Target],
        head_outputs: Mapping[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        """Losses of classes, boxes and centerness, each divided by the positives of the batch."""
        head = self.classification_head
        logits = _category_columns(head_outputs["cls_logits"], head)
        pairs = zip(targets, matched_idxs, strict=True)
        labels = torch.cat([_dense_labels(target, matches, head.first_label) for target, matches in pairs])
        divisor = (labels >= 0).sum().clamp(min=1).double()
        # torchvision's own losses, with one column in place of all classes: only boxes and centerness are wanted.
        one_class = [{**target, "labels": torch.zeros_like(target["labels"])} for target in targets]
        outputs = {**head_outputs, "cls_logits": logits[..., :1].detach()}
        losses: dict[str, Tensor] = super().compute_loss(one_class, outputs, anchors, matched_idxs)
        loss = self.classification_loss(logits.flatten(0, 1), labels, normalizer=divisor)
        return {**losses, "classification": loss}


def _equalize_rois(heads: RoIHeads, loss: nn.Module, scores: Scores, num_classes: int | None) -> None:
    predictor = heads.box_predictor
    if not isinstance(predictor, FastRCNNPredictor):
        raise TypeError(f"the box predictor must be torchvision's FastRCNNPredictor, got {type(predictor).__name__}")
    features = predictor.cls_score.in_features
    if num_classes is None:
        num_classes = predictor.cls_score.out_features - 1
    _require_classes(loss, num_classes)
    if num_classes != predictor.cls_score.out_features - 1:
        predictor.bbox_pred = _like(predictor.bbox_pred, nn.Linear(features, 4 * (num_classes + 1)))
        if heads.has_mask():
            old = heads.mask_predictor
            channels = old.conv5_mask.in_channels, old.conv5_mask.out_channels
            heads.mask_predictor = _like(old.conv5_mask, MaskRCNNPredictor(*channels, num_classes + 1))
    columns = nn.Linear(features, scores.num_logits(num_classes))
    nn.init.normal_(columns.weight, std=0.01)
    nn.init.constant_(columns.bias, bias_for_prior(ROI_PRIOR))
    predictor.cls_score = _like(predictor.cls_score, columns)
    _become(heads, EqualizedRoIHeads, classification_loss=loss, scores=scores)


def _equalize_dense(
    head: nn.Module, loss: nn.Module, scores: Scores, num_classes: int | None, first_label: int
) -> None:
    columns = cast(Any, head.classification_head)
    if first_label not in (0, 1):
        raise ValueError(f"first_label must be 0 or 1, got {first_label}")
    keeps_columns = num_classes is None
    if num_classes is None:
        num_classes = columns.num_classes - first_label
    _require_classes(loss, num_classes, f"; labels start at first_label={first_label}" if keeps_columns else "")
    if not (keeps_columns and isinstance(scores, SigmoidScores)):
        columns.num_classes = scores.num_logits(num_classes)
        if isinstance(scores, SigmoidScores):
            columns.num_classes += first_label  # the usual layout, in which column 0 is not used
        old = columns.cls_logits
        layer: Any = nn.Conv2d(old.in_channels, columns.num_anchors * columns.num_classes, old.kernel_size, padding=1)
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.constant_(layer.bias, bias_for_prior(DENSE_PRIOR))
        columns.cls_logits = _like(old, layer)
    parts = {"scores": scores, "first_label": first_label}
    if isinstance(head, FCOSHead):
        _become(columns, EqualizedFCOSColumns, **parts)
        _become(head, EqualizedFCOSHead, classification_loss=loss)
    else:
        _become(columns, EqualizedRetinaNetHead, **parts, classification_loss=loss)


def _become(module: nn.Module, kind: type[nn.Module], **parts: Any) -> None:
    """Make a module one of a subclass: it keeps its layers, and their names in checkpoints."""
    module.__class__ = kind
    for name, part in parts.items():
        setattr(module, name, part)


def _like(old: nn.Module, new: nn.Module) -> nn.Module:
    """A new layer where the old one was, in its dtype."""
    weight = next(old.parameters())
    return new.to(weight.device, weight.dtype)


def _category_columns(logits: Tensor, head: Any) -> Tensor:
    """Logits without the column that labels from 1 leave unused."""
    is_sigmoid = isinstance(head.scores, SigmoidScores)
    return logits[..., head.first_label :] if is_sigmoid else logits


def _dense_labels(target: Target, matches: Tensor, first_label: int) -> Tensor:
    """Category of each anchor (A,), BACKGROUND where no object matches."""
    labels = target["labels"]
    if not len(labels):
        return torch.full_like(matches, BACKGROUND)
    if int(labels.min()) < first_label:
        raise ValueError(f"labels start at {first_label}, got {int(labels.min())}; see first_label of equalize")
    return torch.where(matches >= 0, labels[matches.clamp(min=0)] - first_label, BACKGROUND)


def _require_first(head: nn.Module) -> None:
    if isinstance(head, EqualizedRoIHeads | _EqualizedColumns):
        raise ValueError("the model has a loss of equigrad already: build it again to give it another")


def _require_loss(loss: nn.Module) -> None:
    if not isinstance(loss, CategoryLoss | WithObjectness):
        raise TypeError(f"loss must be a category loss of equigrad, got {type(loss).__name__}")
    if isinstance(loss, CategoryLoss) and not loss.takes_background:
        raise ValueError(f"a detector has background: use WithObjectness({type(loss).__name__}(...))")


def _require_classes(loss: nn.Module, num_classes: int, note: str = "") -> None:
    for part in find_statistics(loss).values():
        if part.num_classes != num_classes:
            raise ValueError(
                f"the loss is for {part.num_classes} categories, the model for {num_classes} besides background{note}; "
                f"num_classes={part.num_classes} gives the model new layers"
            )
