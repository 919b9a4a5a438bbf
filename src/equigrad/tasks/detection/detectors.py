"""Detectors as settings: each dataclass builds a detector on a pyramid, with the loss and scores of a method.

One-stage detectors take a `DenseMethod`, `RCNN` a `RoIMethod`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

import equigrad
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.paa import paa
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.two_stage.rcnn import BoxLoss, Version, faster_rcnn
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.methods import DenseMethod, RoIMethod


@dataclass(frozen=True)
class RetinaNet:
    """RetinaNet.

    Args:
        prior: initial probability of each sigmoid.
        group_norm: use group norm in the towers, as in torchvision's version 2.
        torchvision_anchors: place the anchors as torchvision does, for its weights.
    """

    prior: float = 0.01
    group_norm: bool = False
    torchvision_anchors: bool = False

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(retinanet, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class Fcos:
    """FCOS with centre sampling.

    Args:
        prior: initial probability of each sigmoid.
        torchvision_points: place the points and compute scores as torchvision does, for its weights.
    """

    prior: float = 0.01
    torchvision_points: bool = False

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(fcos, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class Paa:
    """PAA, probabilistic anchor assignment.

    Args:
        prior: initial probability of each sigmoid.
    """

    prior: float = 0.01

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(paa, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class Atss:
    """ATSS, adaptive training sample selection.

    Args:
        prior: initial probability of each sigmoid.
    """

    prior: float = 0.01

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(atss, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class ImprovedAtss:
    """Baseline†: ATSS with the paper's improvements (Sec. 5.2.2).

    Args:
        prior: initial probability of each sigmoid.
        scales: sides of the anchors, in strides.
        legacy_pixels: count the last pixel of a box in its size, as the released code does.
    """

    prior: float = 0.001
    scales: tuple[float, ...] = (6.0, 8.0)
    legacy_pixels: bool = False

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(improved_atss, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class Yolox:
    """YOLOX as its authors published it.

    Args:
        prior: initial probability of each sigmoid.
        first_l1_epoch: epoch from which the L1 loss of boxes is added.
    """

    prior: float = 0.01
    first_l1_epoch: int = 285

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(yolox, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class YoloxStar:
    """YOLOX*, the paper's variant that suits focal losses.

    Args:
        prior: initial probability of each sigmoid.
        scales: sides of the anchors, in strides.
    """

    prior: float = 0.001
    scales: tuple[float, ...] = (3.0, 4.0)

    def build(self, pyramid: nn.Module, method: DenseMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return _dense_detector(yolox_star, vars(self), pyramid, method, counts)


@dataclass(frozen=True)
class RCNN:
    """Faster R-CNN, or Mask R-CNN.

    Args:
        with_masks: also predict masks (Mask R-CNN).
        class_agnostic: predict one box, and one mask, for all categories.
        num_features: width of the two layers before the classifier.
        num_mask_channels: number of channels of the mask branch.
        sampling_ratio: sampling points along each side of a RoI bin.
        aligned: pool RoIs with pixel centres at half-integers; False is torchvision's pooling.
        box_loss: box loss of both stages; smooth L1 turns linear at 1 / 9.
        anchor_scale: side of the anchors, in strides.
        num_proposals: most proposals per image.
        rois: which proposals the second stage trains on.
        version: version of torchvision's heads; 2 has more convolutions, and batch norms.
    """

    with_masks: bool = False
    class_agnostic: bool = False
    num_features: int = 1024
    num_mask_channels: int = 256
    sampling_ratio: int = 2
    aligned: bool = False
    box_loss: BoxLoss = "smooth_l1"
    anchor_scale: int = 8
    num_proposals: int = 1000
    rois: RoISampler = field(default_factory=RoISampler)
    version: Version = 1

    def build(self, pyramid: nn.Module, method: RoIMethod, counts: CategoryCounts) -> nn.Module:
        """Build the detector."""
        return faster_rcnn(
            pyramid,
            counts.num_classes,
            method.loss.build(counts),
            method.scores.build(counts),
            classifier=method.classifier,
            background_column=counts.num_classes if method.has_background_column else None,
            divide_by_rois=method.divide_by_rois,
            class_agnostic=self.class_agnostic,
            with_masks=self.with_masks,
            version=self.version,
            num_features=self.num_features,
            num_mask_channels=self.num_mask_channels,
            sampling_ratio=self.sampling_ratio,
            aligned=self.aligned,
            box_loss=self.box_loss,
            anchor_scale=self.anchor_scale,
            num_proposals=self.num_proposals,
            sampler=self.rois,
        )


def _dense_detector(
    build: Callable[..., nn.Module],
    settings: Mapping[str, Any],
    pyramid: nn.Module,
    method: DenseMethod,
    counts: CategoryCounts,
) -> nn.Module:
    loss, scores = method.loss.build(counts), equigrad.SigmoidScores()
    return build(pyramid, counts.num_classes, loss, scores, with_quality=method.with_quality, **settings)


OneStageDetector = RetinaNet | Fcos | Paa | Atss | ImprovedAtss | Yolox | YoloxStar
