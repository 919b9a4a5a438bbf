"""Detectors: what one-stage and two-stage detectors share, and the builders of both."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.detection.one_stage.atss import atss as atss, improved_atss as improved_atss
    from equigrad.models.detection.one_stage.detector import DenseDetector as DenseDetector
    from equigrad.models.detection.one_stage.fcos import fcos as fcos
    from equigrad.models.detection.one_stage.paa import paa as paa
    from equigrad.models.detection.one_stage.retinanet import retinanet as retinanet
    from equigrad.models.detection.one_stage.yolox import yolox as yolox, yolox_star as yolox_star
    from equigrad.models.detection.torchvision_weights import from_torchvision as from_torchvision
    from equigrad.models.detection.two_stage.mask_head import paste_masks as paste_masks
    from equigrad.models.detection.two_stage.rcnn import (
        RCNN as RCNN,
        faster_rcnn as faster_rcnn,
        mask_rcnn as mask_rcnn,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
