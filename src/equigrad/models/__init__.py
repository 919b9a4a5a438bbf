"""Models of the three tasks, built by hand from their parts: a backbone or pyramid, a loss and scores.

    loss, scores = equigrad.SoftmaxEqualizationLoss(1000), models.SoftmaxScores()
    model = models.build_classifier(models.resnet50(), 1000, loss, scores)
    losses = model(images, targets)       # training: a dictionary of losses
    predictions = model.eval()(images)    # evaluation: a list with one dictionary an image

Modules are imported when their names are first used: `scores` and `CosineClassifier` need torch alone, the rest the
`train` extra. More parts are in the sub-packages.
"""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0 as DilatedEfficientNetLite0
    from equigrad.models.backbones.dilated_resnet import (
        dilated_resnet50 as dilated_resnet50,
        dilated_resnet101 as dilated_resnet101,
    )
    from equigrad.models.backbones.efficientnet_lite import PACKAGE as PACKAGE, EfficientNetLite0 as EfficientNetLite0
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
    from equigrad.models.classification.classifier import Classifier as Classifier, build_classifier as build_classifier
    from equigrad.models.classification.cosine_classifier import CosineClassifier as CosineClassifier
    from equigrad.models.detection.one_stage.atss import atss as atss, improved_atss as improved_atss
    from equigrad.models.detection.one_stage.detector import DenseDetector as DenseDetector
    from equigrad.models.detection.one_stage.fcos import fcos as fcos
    from equigrad.models.detection.one_stage.paa import paa as paa
    from equigrad.models.detection.one_stage.retinanet import retinanet as retinanet
    from equigrad.models.detection.one_stage.yolox import yolox as yolox, yolox_star as yolox_star
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
    from equigrad.models.detection.two_stage.mask_head import paste_masks as paste_masks
    from equigrad.models.detection.two_stage.rcnn import (
        RCNN as RCNN,
        faster_rcnn as faster_rcnn,
        mask_rcnn as mask_rcnn,
    )
    from equigrad.models.scores import (
        Scores as Scores,
        SigmoidObjectnessScores as SigmoidObjectnessScores,
        SigmoidScores as SigmoidScores,
        SoftmaxObjectnessScores as SoftmaxObjectnessScores,
        SoftmaxScores as SoftmaxScores,
        bias_for_prior as bias_for_prior,
    )
    from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead as DeepLabV3PlusHead
    from equigrad.models.segmentation.pspnet import PSPHead as PSPHead
    from equigrad.models.segmentation.segmenter import Segmenter as Segmenter, build_segmenter as build_segmenter
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
