"""Named choices of `own_data`: what `--backbone`, `--detector`, `--segmenter` and `--frozen` mean for each task.

A wrong name, or names that do not go together, raise UsageError with one line that says what does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from equigrad.errors import UsageError
from equigrad.models.backbones.resnets import TORCHVISION
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes.methods import one_stage, two_stage
from equigrad.recipes.yolox import ROWS as YOLOX_METHODS
from equigrad.settings import nearest
from equigrad.tasks.backbones import (
    ClassificationBackbone,
    CspDarknet,
    DilatedLite0,
    DilatedResNet,
    DilatedTimm,
    Lite0,
    Lite0Pyramid,
    PyramidBackbone,
    ResNet,
    ResNetPyramid,
    SegmentationBackbone,
    Timm,
    TimmPyramid,
)
from equigrad.tasks.detection.detectors import RCNN, Fcos, ImprovedAtss, OneStageDetector, RetinaNet, Yolox, YoloxStar
from equigrad.tasks.methods import DenseMethod, RoIMethod
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet

Frozen = Literal["none", "lower", "backbone"]
FrozenInClassifiers = Literal["auto", "none", "lower", "backbone"]
FrozenInDetectors = Literal["lower", "backbone"]  # their backbones keep the lower layers as they are in any case
DetectorName = Literal["atss", "faster_rcnn", "mask_rcnn", "retinanet", "fcos", "yolox_s"]
SegmenterName = Literal["deeplabv3plus", "pspnet"]
DetectionMethodName = Literal[
    "bce",
    "fl",
    "fl_eql",
    "efl",
    "qfl",
    "eqfl",
    "vfl",
    "evfl",
    "sigmoid",
    "ce",
    "norcal",
    "bags",
    "seesaw",
    "seesaw_cosine",
    "softmax_eql",
    "sigmoid_eql",
]

Part = TypeVar("Part")

_TIMM = "timm:"
_MIN_IMAGE_SIZE = 16  # in less no network sees anything
_TWO_STAGE = ("faster_rcnn", "mask_rcnn")
_PRIOR = 0.01  # of ATSS; the paper's 0.001 takes more steps to leave


def checked_size(image_size: int) -> int:
    """The size itself, if images can have it."""
    if image_size < _MIN_IMAGE_SIZE:
        raise UsageError(f"image_size={image_size}: expected {_MIN_IMAGE_SIZE} pixels or more")
    return image_size


def image_backbone(name: str) -> ClassificationBackbone:
    """The backbone of a classifier."""
    if name.startswith(_TIMM):
        return Timm(name.removeprefix(_TIMM))
    backbones: dict[str, ClassificationBackbone] = {
        "lite0": Lite0(),
        "resnet50": ResNet("resnet50", weights=TORCHVISION),
        "resnet101": ResNet("resnet101", weights=TORCHVISION),
    }
    return _named(name, backbones)


def segmentation_backbone(name: str) -> SegmentationBackbone:
    """The encoder of a segmenter."""
    if name.startswith(_TIMM):
        return DilatedTimm(name.removeprefix(_TIMM))
    backbones: dict[str, SegmentationBackbone] = {
        "lite0": DilatedLite0(),
        "resnet50": DilatedResNet(50, weights=TORCHVISION, deep_stem=False),
        "resnet101": DilatedResNet(101, weights=TORCHVISION, deep_stem=False),
    }
    return _named(name, backbones)


def segmentation_head(name: SegmenterName, backbone: SegmentationBackbone) -> DeepLabV3Plus | PSPNet:
    """The head on an encoder: light on EfficientNet-Lite0, and with smaller dilations where the stride is 16."""
    channels = 128 if isinstance(backbone, DilatedLite0) else 512
    if name == "pspnet":
        return PSPNet(channels)
    has_stride_8 = isinstance(backbone, DilatedResNet)
    return DeepLabV3Plus(channels, dilations=(1, 12, 24, 36) if has_stride_8 else (1, 6, 12, 18))


def frozen_parts(frozen: Frozen, backbone: ClassificationBackbone | SegmentationBackbone) -> tuple[str, ...]:
    """Paths of what is not trained; "lower" is all up to stride 4, where a step spends a third of its time."""
    if frozen != "lower":
        return ("backbone",) if frozen == "backbone" else ()
    lower: tuple[str, ...] = ()
    if isinstance(backbone, Lite0 | DilatedLite0):
        lower = ("stem", "blocks.0", "blocks.1", "blocks.2")
    elif isinstance(backbone, ResNet | DilatedResNet):
        lower = ("conv1", "bn1", "layer1")
    return tuple(f"backbone.{part}" for part in lower)


@dataclass(frozen=True)
class DetectorChoice:
    """A detector with the backbone and the method that go with it."""

    backbone: PyramidBackbone
    detector: OneStageDetector | RCNN
    method: DenseMethod | RoIMethod

    @property
    def pretrained_parts(self) -> tuple[str, ...]:
        """Patterns of the backbone without its feature pyramid; none for yolox_s, which starts from scratch."""
        if isinstance(self.backbone, CspDarknet):
            return ()
        path = "backbone" if isinstance(self.detector, RCNN) else "pyramid"
        # Of Lite0 all parts but `fpn`: a setting decides whether it has a head.
        return (f"{path}.[!f]*" if isinstance(self.backbone, Lite0Pyramid) else f"{path}.body",)

    def frozen_parts(self, frozen: FrozenInDetectors) -> tuple[str, ...]:
        """Paths of what is not trained: what the backbone freezes by itself, or all of it but its feature pyramid."""
        if frozen == "lower":
            return ()
        if not self.pretrained_parts:
            raise UsageError("frozen=backbone: that of yolox_s starts from scratch; freeze one with ImageNet weights")
        return self.pretrained_parts


def default_detector(method: str | None) -> DetectorName:
    """Two stages, which learn more from few images; for a method that only one-stage detectors have, ATSS."""
    return "faster_rcnn" if method is None or method in two_stage.METHODS else "atss"


def detector_choice(detector: DetectorName, backbone: str | None, method: str | None) -> DetectorChoice:
    """The detector of a name; None is the backbone and the method that suit it."""
    if detector == "yolox_s":
        return _yolox(backbone, method)
    if detector in _TWO_STAGE:
        roi_method = _method(detector, method or "sigmoid_eql")
        pyramid = _pyramid(backbone or "lite0", is_two_stage=True)
        return DetectorChoice(pyramid, _rcnn(pyramid, with_masks=detector == "mask_rcnn"), roi_method)
    dense: dict[str, OneStageDetector] = {"atss": ImprovedAtss(prior=_PRIOR), "retinanet": RetinaNet(), "fcos": Fcos()}
    # No equalization loss: EFL gained nothing with AdamW (docs/evidence/advice.md).
    dense_method = _method(detector, method or "fl")
    return DetectorChoice(_pyramid(backbone or "lite0", is_two_stage=False), dense[detector], dense_method)


def _yolox(backbone: str | None, method: str | None) -> DetectorChoice:
    """YOLOX as published with `sigmoid`, else YOLOX*, which suits focal losses."""
    if backbone is not None:
        raise UsageError(
            f"backbone={backbone}: yolox_s has a backbone of its own, trained from scratch; leave it out, or take "
            "another detector: atss, faster_rcnn, mask_rcnn, retinanet or fcos"
        )
    chosen = _method("yolox_s", method or "qfl")
    return DetectorChoice(CspDarknet("s"), Yolox() if method == "sigmoid" else YoloxStar(), chosen)


def _pyramid(name: str, *, is_two_stage: bool) -> PyramidBackbone:
    extra: Any = "pool" if is_two_stage else "p5"
    if name.startswith(_TIMM):
        return TimmPyramid(name.removeprefix(_TIMM), extra=extra)
    backbones: dict[str, PyramidBackbone] = {
        # Frozen up to stride 8.
        "lite0": Lite0Pyramid(num_channels=64, extra=extra, num_frozen=5, imagenet_features=is_two_stage),
        "resnet50": ResNetPyramid(50, extra=extra),
        "resnet101": ResNetPyramid(101, extra=extra),
    }
    return _named(name, backbones)


def _rcnn(pyramid: PyramidBackbone, *, with_masks: bool) -> RCNN:
    """Rare categories share the boxes and masks of all others; small parts on EfficientNet-Lite0."""
    if not isinstance(pyramid, Lite0Pyramid):
        return RCNN(with_masks=with_masks, class_agnostic=True)
    return RCNN(
        with_masks=with_masks,
        class_agnostic=True,
        anchor_scale=4,  # 32 to 256 pixels: the first level has stride 8
        num_features=512,
        num_mask_channels=64,
        num_proposals=300,
        rois=RoISampler(128),
    )


def _method(detector: DetectorName, name: str) -> Any:
    methods = _methods_of(detector)
    if name in methods:
        return methods[name]
    others = [other for other in get_args(DetectorName) if name in _methods_of(other)]
    hint = f"; {name} goes with detector={' or '.join(others)}" if others else nearest(name, methods)
    raise UsageError(f"method={name}: {detector} takes one of {', '.join(methods)}{hint}")


def _methods_of(detector: DetectorName) -> Mapping[str, DenseMethod | RoIMethod]:
    found: Mapping[Any, DenseMethod | RoIMethod] = one_stage.METHODS
    if detector in _TWO_STAGE:
        found = two_stage.METHODS
    elif detector == "yolox_s":
        found = {name: method for name, (_, method) in YOLOX_METHODS.items()}
    return found


def _named(name: str, backbones: "dict[str, Part]") -> Part:
    if name not in backbones:
        raise UsageError(
            f"backbone={name}: expected one of {', '.join(backbones)}, timm:NAME{nearest(name, backbones)}"
        )
    return backbones[name]
