"""Semantic segmentation: an encoder, a head, a loss at some resolution, inference."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead as DeepLabV3PlusHead
    from equigrad.models.segmentation.fcn import FCNHead as FCNHead
    from equigrad.models.segmentation.pspnet import PSPHead as PSPHead
    from equigrad.models.segmentation.segmenter import (
        VOID as VOID,
        Segmenter as Segmenter,
        build_segmenter as build_segmenter,
    )
    from equigrad.models.segmentation.sliding_window import (
        Scale as Scale,
        SlidingWindow as SlidingWindow,
        WholeImage as WholeImage,
    )
    from equigrad.models.segmentation.upsampled_loss import (
        DecoderResolutionLoss as DecoderResolutionLoss,
        LabelResolutionLoss as LabelResolutionLoss,
        TiledLoss as TiledLoss,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
