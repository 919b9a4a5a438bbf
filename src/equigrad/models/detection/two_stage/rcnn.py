"""Faster R-CNN and Mask R-CNN on any pyramid, with a classification loss and scores that are passed in.

    pyramid = resnet50_fpn(TORCHVISION, extra="pool")
    loss, scores = WithObjectness(SigmoidEqualizationLoss(1203)), SigmoidObjectnessScores()
    model = mask_rcnn(pyramid, 1203, loss, scores, classifier=partial(RoIClassifier, prior=0.001))
    losses = model(images, targets)        # training: classification, box, mask, rpn_objectness, rpn_box
    predictions = model(images, targets)   # evaluation: [{"boxes", "scores", "labels", "masks" inside the boxes}, ...]
    paste_masks(prediction["masks"], boxes, original_size)      # for evaluation, boxes in the same coordinates

Images are padded batches with `image_size`, the size without padding, in the targets. `roi_scores` says which scores
and settings go with which loss. Paths of parts, with torchvision's names: `backbone`, `rpn`, `roi_heads` and below it
those of `RoIHead`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torchvision.models.detection.image_list import ImageList  # type: ignore[import-untyped]

from equigrad.models.detection.pyramids.shape import imagenet_channels, pyramid_shape
from equigrad.models.detection.targets import Target, check_targets, image_sizes
from equigrad.models.detection.two_stage.mask_head import MaskBranch
from equigrad.models.detection.two_stage.proposals import proposal_network
from equigrad.models.detection.two_stage.roi_head import IMAGENET, MakeClassifier, RoIClassifier, RoIHead
from equigrad.models.detection.two_stage.roi_inference import RoIInference
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.models.scores import Scores

COARSEST_ROI_STRIDE = 32

BoxLoss = Literal["smooth_l1", "l1"]

Version = Literal[1, 2]
"""Of torchvision's heads: 1 as published; 2 has more convolutions, with batch norms (see `faster_rcnn`)."""


class RCNN(nn.Module):
    """A two-stage detector.

    Args:
        backbone: from images (B, 3, H, W) to maps (B, D, H_l, W_l), and perhaps one of ImageNet features after them; it
            normalises the images itself.
        rpn: proposals from these maps.
        roi_heads: categories, boxes and masks of proposals.
    """

    def __init__(self, backbone: nn.Module, rpn: nn.Module, roi_heads: RoIHead) -> None:
        super().__init__()
        self.backbone = backbone
        levels = range(len(pyramid_shape(backbone).strides))
        self.map_names = [*map(str, levels), *([IMAGENET] if imagenet_channels(backbone) else [])]
        self.rpn = rpn
        self.roi_heads = roi_heads

    def forward(
        self, images: Tensor, targets: Sequence[Target] | None = None
    ) -> dict[str, Tensor] | list[dict[str, Tensor]]:
        """In training the losses, otherwise the detections of every image, in its coordinates.

        Args:
            images: (B, 3, H, W), padded.
            targets: of each image `image_size`, height and width without padding; in training also `boxes` (G, 4),
                `labels` (G,) and, for masks, `masks`, dense (G, h, w) or `CompactMasks`.
        """
        check_targets(images, targets, training=self.training)
        padded = [(images.shape[2], images.shape[3])] * len(images)
        sizes = image_sizes(images, targets)
        features = dict(zip(self.map_names, self.backbone(images), strict=True))
        levels = {name: maps for name, maps in features.items() if name != IMAGENET}
        if not self.training or targets is None:
            proposals, _ = self.rpn(ImageList(images, sizes), levels)
            return self.roi_heads.detections(features, proposals, sizes, padded)
        self._check(targets)
        proposals, losses = self.rpn(ImageList(images, sizes), levels, targets)
        return self.roi_heads.losses(features, proposals, targets, padded) | {
            "rpn_objectness": losses["loss_objectness"],
            "rpn_box": losses["loss_rpn_box_reg"],
        }

    def _check(self, targets: Sequence[Target]) -> None:
        """Refuse boxes without area, which have no logarithm, and labels out of range: C would mean background."""
        if self.roi_heads.mask_branch is not None and not all("masks" in target for target in targets):
            raise ValueError("targets must have masks to train a mask branch")
        boxes = torch.cat([target["boxes"] for target in targets])
        labels = torch.cat([target["labels"] for target in targets])
        has_area = (boxes[:, 2:] > boxes[:, :2]).all(1)
        _require(has_area, boxes, "boxes must be x1, y1, x2, y2 with x1 < x2 and y1 < y2")
        num_classes = self.roi_heads.num_classes
        _require((labels >= 0) & (labels < num_classes), labels, f"labels must be in 0 ... {num_classes - 1}")


def faster_rcnn(
    pyramid: nn.Module,
    num_classes: int,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    classifier: MakeClassifier = RoIClassifier,
    background_column: int | None = None,
    divide_by_rois: bool = False,
    class_agnostic: bool = False,
    with_masks: bool = False,
    version: Version = 1,
    num_features: int = 1024,
    num_mask_channels: int = 256,
    sampling_ratio: int = 2,
    aligned: bool = False,
    box_loss: BoxLoss = "smooth_l1",
    anchor_scale: int = 8,
    num_proposals: int = 1000,
    sampler: RoISampler | None = None,
    inference: RoIInference | None = None,
) -> RCNN:
    """Faster R-CNN with the settings of LVIS.

    Args:
        pyramid: with `num_channels` and `strides`; RoIs are pooled from the levels up to stride 32, and from its map of
            ImageNet features, if it has one, for the classifier.
        num_classes: C.
        classification_loss: see `RoIHead`, as for all arguments that are not named here.
        scores: decide how many columns the classifier has.
        classifier: makes the layer.
        background_column: column that means background.
        divide_by_rois: the loss divides by all RoIs.
        class_agnostic: one box, and one mask, for all categories.
        with_masks: Mask R-CNN.
        version: 2 has two convolutions in the RPN, four with batch norms in the box head, and batch norms in the mask
            branch: torchvision's heads of that name.
        num_features: width of the box head.
        num_mask_channels: number of channels of the mask branch.
        sampling_ratio: points a bin of a RoI is averaged over, on each of its sides; 1 is faster where RoIs are small.
        aligned: see `roi_pool`.
        box_loss: box loss of both stages; smooth L1 turns linear at 1 / 9.
        anchor_scale: side of the anchors in strides.
        num_proposals: most proposals an image.
        sampler: RoIs of a training step.
        inference: how detections are chosen.
    """
    num_channels, strides = pyramid_shape(pyramid)
    levels = roi_levels(strides)
    box_beta = 0.0 if box_loss == "l1" else 1 / 9
    num_masks = 1 if class_agnostic else num_classes
    mask_branch = None
    if with_masks:
        mask_branch = MaskBranch(
            num_channels,
            num_masks,
            levels,
            num_channels=num_mask_channels,
            sampling_ratio=sampling_ratio,
            aligned=aligned,
            batch_norm=version == 2,
        )
    head = RoIHead(
        num_channels,
        levels,
        num_classes,
        classification_loss,
        scores,
        classifier=classifier,
        background_column=background_column,
        divide_by_rois=divide_by_rois,
        class_agnostic=class_agnostic,
        mask_branch=mask_branch,
        num_features=num_features,
        with_convs=version == 2,
        sampling_ratio=sampling_ratio,
        aligned=aligned,
        sampler=sampler,
        inference=inference,
        box_beta=box_beta,
        imagenet_channels=imagenet_channels(pyramid),
    )
    rpn = proposal_network(
        num_channels,
        strides,
        anchor_scale=anchor_scale,
        num_proposals=num_proposals,
        num_convs=version,
        box_beta=box_beta,
    )
    return RCNN(pyramid, rpn, head)


mask_rcnn = partial(faster_rcnn, with_masks=True)
"""`faster_rcnn` with a mask branch."""


def roi_levels(strides: Sequence[int]) -> list[str]:
    """Names of the levels RoIs are pooled from; coarser ones serve proposals alone."""
    names = [str(level) for level, stride in enumerate(strides) if stride <= COARSEST_ROI_STRIDE]
    if not names:
        raise ValueError(f"pyramid must have a level of stride {COARSEST_ROI_STRIDE} or less, got strides {strides}")
    return names


def _require(is_allowed: Tensor, values: Tensor, message: str) -> None:
    """Refuse rows (n,) of values: by ValueError on the CPU, by a device assertion on a GPU, which does not wait."""
    if is_allowed.is_cuda:
        torch._assert_async(is_allowed.all(), message)
    elif not is_allowed.all():
        raise ValueError(f"{message}, got {values[~is_allowed][0].tolist()}")
