"""Your own data, without a line of Python.

equigrad train own_data:classification --set data.train=photos/train --set data.test=photos/test
equigrad train own_data:semantic_segmentation --set data.images=photos --set data.labels=maps --set data.names=names.txt
equigrad train own_data:detection --set data.train=train.json --set data.test=val.json --set data.images=photos
equigrad train own_data:instance_segmentation --set data.train=train.json --set data.images=photos --set data.test=none
"""

from dataclasses import replace
from functools import partial

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.engine.schedule import Poly
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.models.detection.two_stage.rcnn import faster_rcnn
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes import camvid, methods, small_detection
from equigrad.recipes.backbones import Backbone
from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.dense_methods import DenseMethodName
from equigrad.recipes.detection import DetectionRecipe
from equigrad.recipes.detection_data import CocoFiles
from equigrad.recipes.detection_views import ShorterSide
from equigrad.recipes.image_data import OwnImages
from equigrad.recipes.pixel_methods import PixelMethodName
from equigrad.recipes.roi_methods import ROI_METHODS, RoIMethodName, TwoStage
from equigrad.recipes.segmentation import SegmentationRecipe
from equigrad.recipes.segmentation_data import LabelFolders


def classification(prior_power: float = 1.0) -> ClassificationRecipe:
    """Softmax-EQL on a folder for each category or a list of `path label`, from an ImageNet backbone."""
    return ClassificationRecipe(
        data=OwnImages(),
        backbone=Backbone(EfficientNetLite0, PACKAGE),
        method=methods.softmax_eql(prior_power),
        training=TrainSettings(
            optimizer=SGD(lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
            schedule=Schedule(epochs=20, decay=Cosine(), warmup=Warmup(100)),
            batch_size=32,
            num_workers=2,
        ),
    )


def semantic_segmentation(method: PixelMethodName = "softmax_eql") -> SegmentationRecipe:
    """DeepLabV3+ on a folder of images, a folder of index PNGs and a file of names, from an ImageNet backbone."""
    small = camvid.deeplabv3plus_lite0(method)
    schedule = Schedule(epochs=40, decay=Poly(), warmup=Warmup(50))
    training = replace(small.training, schedule=schedule, frozen=(), num_workers=2, log_every=50, evaluate_every=5)
    return replace(small, data=LabelFolders(), training=training)


def detection(method: DenseMethodName = "efl") -> DetectionRecipe:
    """ATSS with EFL on a COCO or LVIS file with boxes and a folder of images, from an ImageNet backbone."""
    small = small_detection.plantdoc(method)
    schedule = Schedule(epochs=24, decay=Cosine(), warmup=Warmup(200))
    return replace(
        small,
        data=CocoFiles(),
        views=ShorterSide(short=(320, 352, 384, 416, 448, 480), test_short=416, long=704),
        backbone=Backbone(LiteFPN, PACKAGE),
        training=replace(small.training, schedule=schedule, num_workers=2, evaluate_every=6),
        sampler="repeat_factor",
        repeat_threshold=0.01,
    )


def instance_segmentation(method: RoIMethodName = "sigmoid_eql") -> DetectionRecipe:
    """Mask R-CNN on a COCO or LVIS file with masks and a folder of images, from an ImageNet backbone."""
    # Anchors of 32 to 256 pixels; rare categories share the boxes and masks of all others.
    build = partial(
        faster_rcnn,
        anchor_scale=4,
        num_features=512,
        num_mask_channels=64,
        num_proposals=300,
        sampler=RoISampler(128),
    )
    return DetectionRecipe(
        data=CocoFiles(),
        views=ShorterSide(short=(256, 288, 320, 352, 384), test_short=320, long=512),
        backbone=Backbone(partial(LiteFPN, extra="pool"), PACKAGE),
        detector=TwoStage(ROI_METHODS[method], with_masks=True, class_agnostic=True, build=build),
        training=TrainSettings(
            optimizer=SGD(lr=0.01, momentum=0.9, weight_decay=1e-4),
            schedule=Schedule(epochs=24, decay=Cosine(), warmup=Warmup(100)),
            batch_size=8,
            max_grad_norm=35.0,
            num_workers=2,
            evaluate_every=6,
        ),
    )
