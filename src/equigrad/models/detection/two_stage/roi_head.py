"""The second stage of a two-stage detector: RoIs to categories, boxes and masks. Loss and scores are passed in.

Which columns the classifier has follows from the scores, and what background is called in the loss from
`background_column`; `roi_scores` has the table of what goes together.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.detection.faster_rcnn import FastRCNNConvFCHead, TwoMLPHead  # type: ignore[import-untyped]

from equigrad.labels import BACKGROUND
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.boxes import at_least_float32, clip
from equigrad.models.detection.targets import Target
from equigrad.models.detection.two_stage.mask_head import ImageSizes, MaskBranch
from equigrad.models.detection.two_stage.roi_inference import Detections, RoIInference
from equigrad.models.detection.two_stage.roi_pooling import roi_pool
from equigrad.models.detection.two_stage.roi_sampling import RoISample, RoISampler
from equigrad.models.scores import Scores, bias_for_prior

MakeClassifier = Callable[[int, int], nn.Module]
"""From features and columns to the layer: `RoIClassifier`, or a `partial` of it or of `CosineClassifier`."""

CODER = DeltaCoder((0.1, 0.2))

IMAGENET = "imagenet"
"""Name of the map of ImageNet features among the levels of the pyramid."""

IMAGENET_SAMPLES = 4  # points along each side of a RoI over which that map is averaged


class RoIClassifier(nn.Linear):
    """A linear layer with the published initialisation: weights of standard deviation 0.01, and a bias for the prior.

    Args:
        in_features: D.
        num_logits: columns.
        prior: probability each sigmoid starts with, published 0.001; None starts the bias at 0.
    """

    prior: float | None = None

    def __init__(self, in_features: int, num_logits: int, *, prior: float | None = None) -> None:
        super().__init__(in_features, num_logits)
        self.prior = prior
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the initial weights; second stages call it for a new classifier."""
        nn.init.normal_(self.weight, std=0.01)
        nn.init.constant_(self.bias, 0.0 if self.prior is None else bias_for_prior(self.prior))


class BoxPredictor(nn.Module):
    """Logits of the categories, and box values for one category a RoI.

    Args:
        classifier: from features to logits.
        num_features: D.
        num_boxes: C, or 1 if all categories share a box.
    """

    # Computing the boxes of all categories reads each filter once; pair by pair is faster only for few pairs.
    MOST_PAIRS_A_ROI = 2

    def __init__(self, classifier: nn.Module, num_features: int, num_boxes: int) -> None:
        super().__init__()
        self.cls_score = classifier
        self.bbox_pred = nn.Linear(num_features, 4 * num_boxes)
        self.num_boxes = num_boxes
        nn.init.normal_(self.bbox_pred.weight, std=0.001)
        nn.init.zeros_(self.bbox_pred.bias)

    def box_values(self, features: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
        """Values (n, 4) of the RoIs (n,), rows of features (R, D), as the categories (n,)."""
        layer = self.bbox_pred
        if self.num_boxes == 1 or len(rows) > self.MOST_PAIRS_A_ROI * len(features):
            values: Tensor = layer(features).view(len(features), self.num_boxes, 4)
            return values[rows, labels if self.num_boxes > 1 else torch.zeros_like(labels)]
        filters = F.embedding(labels, layer.weight.view(self.num_boxes, -1)).view(-1, 4, layer.in_features)
        chosen = features.index_select(0, rows)  # the gradient of features[rows] is slow
        return torch.baddbmm(layer.bias.view(-1, 4)[labels, :, None], filters, chosen[..., None])[..., 0]


class RoIHead(nn.Module):
    """Samples RoIs, pools their features, and computes losses or detections.

    Paths of parts: `box_head`, `box_predictor.cls_score` (the classifier), `box_predictor.bbox_pred`, `mask_branch`
    and `classification_loss`.

    Args:
        num_channels: number of channels of the pyramid.
        level_names: names of the levels RoIs are pooled from.
        num_classes: C.
        classification_loss: called once per step with logits (R, K) and labels (R,), even without RoIs.
        scores: from logits to scores (R, C); decides K.
        classifier: makes the layer before them.
        background_column: column that means background, C for a softmax of C + 1; None labels it BACKGROUND.
        divide_by_rois: the loss divides by all RoIs and not by those it counts itself: as published for a softmax with
            objectness, which counts the foreground alone.
        class_agnostic: one box, and one mask, for all categories.
        mask_branch: None for detection without masks.
        num_features: width of the layers between pooling and predictor.
        with_convs: four convolutions with batch norm and one layer between them, instead of two layers.
        sampling_ratio: points a bin of a RoI is averaged over, on each of its sides.
        aligned: see `roi_pool`.
        sampler: RoIs of a training step.
        inference: how detections are chosen.
        box_beta: where the smooth L1 loss of box values turns from square to linear; 0 is plain L1.
        imagenet_channels: of the map `IMAGENET`, whose mean over a RoI joins the features of the box head; 0 is none.
    """

    def __init__(
        self,
        num_channels: int,
        level_names: Sequence[str],
        num_classes: int,
        classification_loss: nn.Module,
        scores: Scores,
        *,
        classifier: MakeClassifier = RoIClassifier,
        background_column: int | None = None,
        divide_by_rois: bool = False,
        class_agnostic: bool = False,
        mask_branch: MaskBranch | None = None,
        num_features: int = 1024,
        with_convs: bool = False,
        sampling_ratio: int = 2,
        aligned: bool = False,
        sampler: RoISampler | None = None,
        inference: RoIInference | None = None,
        box_beta: float = 1 / 9,
        imagenet_channels: int = 0,
    ) -> None:
        super().__init__()
        num_logits = scores.num_logits(num_classes)
        if background_column is not None and not num_classes <= background_column < num_logits:
            expected = f"{num_classes} ... {num_logits - 1}, a column after the {num_classes} categories"
            raise ValueError(f"background_column must be in {expected}, or None, got {background_column}")
        self.num_classes = num_classes
        self.box_roi_pool = roi_pool(level_names, 7, sampling_ratio, aligned=aligned)
        if with_convs:
            convs = [num_channels] * 4
            self.box_head = FastRCNNConvFCHead((num_channels, 7, 7), convs, [num_features], norm_layer=nn.BatchNorm2d)
        else:
            self.box_head = TwoMLPHead(num_channels * 7 * 7, num_features)
        # Few training images do not teach a new head as much as ImageNet has taught the backbone.
        self.imagenet_pool = None
        if imagenet_channels:
            # Half a pixel of this map is 16 pixels of the image.
            self.imagenet_pool = roi_pool([IMAGENET], 1, IMAGENET_SAMPLES, aligned=True)
        num_features += imagenet_channels
        layer = classifier(num_features, num_logits)
        self.box_predictor = BoxPredictor(layer, num_features, 1 if class_agnostic else num_classes)
        self.mask_branch = mask_branch
        self.classification_loss = classification_loss
        self.scores = scores
        self.background_column = background_column
        self.divide_by_rois = divide_by_rois
        self.sampler = sampler or RoISampler()
        self.inference = inference or RoIInference()
        self.box_beta = box_beta

    def losses(
        self,
        features: Mapping[str, Tensor],
        proposals: Sequence[Tensor],
        targets: Sequence[Target],
        image_sizes: ImageSizes,
    ) -> dict[str, Tensor]:
        """`classification`, `box` and, with a mask branch, `mask`, of proposals (P, 4) of each image."""
        samples = [
            self.sampler(boxes, target["boxes"], target["labels"])
            for boxes, target in zip(proposals, targets, strict=True)
        ]
        positives = [sample.positives() for sample in samples]
        vectors = self._roi_features(features, [sample.boxes for sample in samples], image_sizes)
        labels = torch.cat([sample.labels for sample in samples])
        if self.background_column is not None:
            labels = labels.masked_fill(labels == BACKGROUND, self.background_column)
        normalizer = float(max(1, len(labels))) if self.divide_by_rois else None
        logits = self.box_predictor.cls_score(vectors)
        losses = {
            "classification": self.classification_loss(logits, labels, normalizer=normalizer),
            "box": self._box_loss(vectors, samples, positives, targets),
        }
        if self.mask_branch is not None:
            masks = [target["masks"] for target in targets]
            losses["mask"] = self.mask_branch.loss(features, positives, masks, image_sizes)
        return losses

    @torch.no_grad()
    def detections(
        self,
        features: Mapping[str, Tensor],
        proposals: Sequence[Tensor],
        true_sizes: Sequence[tuple[int, int]],
        image_sizes: ImageSizes,
    ) -> list[dict[str, Tensor]]:
        """`boxes` (n, 4), `scores` (n,), `labels` (n,) and `masks` (n, M, M), probabilities inside the boxes.

        Args:
            features: levels of the pyramid by name.
            proposals: (P, 4) of each image.
            true_sizes: (height, width) of each image without padding, at which boxes are cut.
            image_sizes: the same with padding.
        """
        vectors = self._roi_features(features, list(proposals), image_sizes)
        of_images = torch.split(vectors, [len(boxes) for boxes in proposals])
        found = [self._detect(*parts) for parts in zip(of_images, proposals, true_sizes, strict=True)]
        detections = [each._asdict() for each in found]
        if self.mask_branch is not None:
            boxes, labels = [each.boxes for each in found], [each.labels for each in found]
            masks = self.mask_branch.masks(features, boxes, labels, image_sizes)
            detections = [each | {"masks": mask} for each, mask in zip(detections, masks, strict=True)]
        return detections

    def _roi_features(self, features: Mapping[str, Tensor], rois: list[Tensor], image_sizes: ImageSizes) -> Tensor:
        vectors: Tensor = self.box_head(self.box_roi_pool(features, rois, image_sizes))
        if self.imagenet_pool is None:
            return vectors
        return torch.cat([vectors, self.imagenet_pool(features, rois, image_sizes).flatten(1)], 1)

    def _box_loss(
        self,
        vectors: Tensor,
        samples: Sequence[RoISample],
        positives: Sequence[RoISample],
        targets: Sequence[Target],
    ) -> Tensor:
        labels = torch.cat([sample.labels for sample in samples])
        rows = (labels >= 0).nonzero()[:, 0]
        values = at_least_float32(self.box_predictor.box_values(vectors, rows, labels[rows]))
        objects = [target["boxes"][each.matched] for each, target in zip(positives, targets, strict=True)]
        wanted = CODER.encode(torch.cat([each.boxes for each in positives]), torch.cat(objects))
        loss = F.smooth_l1_loss(values, wanted.to(values.dtype), beta=self.box_beta, reduction="sum")
        return loss / max(1, len(labels))

    def _detect(self, vectors: Tensor, proposals: Tensor, size: tuple[int, int]) -> Detections:
        def boxes_of(rows: Tensor, labels: Tensor) -> Tensor:
            values = self.box_predictor.box_values(vectors, rows, labels)
            return clip(CODER.decode(proposals[rows], values), size)

        # Half precision rounds close scores to ties.
        return self.inference(self.scores(at_least_float32(self.box_predictor.cls_score(vectors))), boxes_of)
