"""Feature extractors for images, and reading trained weights into them."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0 as DilatedEfficientNetLite0
    from equigrad.models.backbones.dilated_resnet import (
        dilated_resnet50 as dilated_resnet50,
        dilated_resnet101 as dilated_resnet101,
    )
    from equigrad.models.backbones.efficientnet_lite import PACKAGE as PACKAGE, EfficientNetLite0 as EfficientNetLite0
    from equigrad.models.backbones.encoder_maps import EncoderChannels as EncoderChannels, EncoderMaps as EncoderMaps
    from equigrad.models.backbones.normalization import (
        EFFICIENTNET_LITE as EFFICIENTNET_LITE,
        HALF as HALF,
        IMAGENET as IMAGENET,
        INATURALIST18 as INATURALIST18,
        Normalization as Normalization,
        PixelStatistics as PixelStatistics,
    )
    from equigrad.models.backbones.pretrained import load_backbone as load_backbone, read_weights as read_weights
    from equigrad.models.backbones.resnets import (
        TORCHVISION as TORCHVISION,
        resnet50 as resnet50,
        resnet101 as resnet101,
        resnet152 as resnet152,
        resnext50 as resnext50,
    )
    from equigrad.models.backbones.small_conv_net import SmallConvNet as SmallConvNet
    from equigrad.models.backbones.small_encoder import SmallEncoder as SmallEncoder
    from equigrad.models.backbones.timm_networks import dilated_timm as dilated_timm, timm_backbone as timm_backbone
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
