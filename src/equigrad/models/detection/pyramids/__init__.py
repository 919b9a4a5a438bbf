"""Feature pyramids: networks from images to maps of several strides, for detectors."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.detection.pyramids.csp_darknet import (
        CSPDarknetPAFPN as CSPDarknetPAFPN,
        csp_darknet_m as csp_darknet_m,
        csp_darknet_s as csp_darknet_s,
    )
    from equigrad.models.detection.pyramids.feature_pyramid import FeaturePyramid as FeaturePyramid
    from equigrad.models.detection.pyramids.lite_fpn import LiteFPN as LiteFPN
    from equigrad.models.detection.pyramids.resnet_fpn import (
        ResNetFPN as ResNetFPN,
        resnet50_fpn as resnet50_fpn,
        resnet101_fpn as resnet101_fpn,
    )
    from equigrad.models.detection.pyramids.small_fpn import SmallFPN as SmallFPN
    from equigrad.models.detection.pyramids.timm_fpn import timm_pyramid as timm_pyramid
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
