"""Your own data, without a line of Python.

equigrad train own_data:classification --set data.train=photos/train --set data.test=photos/test
equigrad train own_data:semantic_segmentation --set data.images=photos --set data.labels=maps --set data.names=names.txt
equigrad train own_data:detection --set data.train=train.json --set data.test=val.json --set data.images=photos
equigrad train own_data:instance_segmentation --set data.train=train.json --set data.images=photos --set data.test=none
"""

from equigrad.engine import SGD, Cosine, Poly, Schedule, TrainSettings, Warmup
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes.methods import classification as image_methods, one_stage, two_stage
from equigrad.recipes.methods.segmentation import PixelMethodName, pixel_method
from equigrad.tasks.backbones import DilatedLite0, Lite0, Lite0Pyramid
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.detection.detectors import RCNN, ImprovedAtss
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.segmentation.data import LabelFolders
from equigrad.tasks.segmentation.heads import DeepLabV3Plus
from equigrad.tasks.segmentation.recipe import SegmentationRecipe


def classification(method: image_methods.MethodName = "softmax_eql") -> ClassificationRecipe:
    """Softmax-EQL on a folder for each category or a list of `path label`, from an ImageNet backbone."""
    _, chosen = image_methods.METHODS[method]
    return ClassificationRecipe(
        data=OwnImages(),
        backbone=Lite0(),
        method=chosen,
        training=TrainSettings(
            optimizer=SGD(lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
            schedule=Schedule(epochs=20, decay=Cosine(), warmup=Warmup(100)),
            batch_size=32,
            num_workers=2,
        ),
    )


def semantic_segmentation(method: PixelMethodName = "softmax_eql") -> SegmentationRecipe:
    """DeepLabV3+ on a folder of images, a folder of index PNGs and a file of names, from an ImageNet backbone."""
    return SegmentationRecipe(
        data=LabelFolders(),
        backbone=DilatedLite0(),
        head=DeepLabV3Plus(channels=128, dilations=(1, 6, 12, 18)),  # light, and for a stride of 16
        method=pixel_method(method),
        training=TrainSettings(
            optimizer=SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
            schedule=Schedule(epochs=40, decay=Poly(), warmup=Warmup(50)),
            batch_size=8,
            max_grad_norm=10.0,
            channels_last=True,
            num_workers=2,
            log_every=50,
            evaluate_every=5,
        ),
        auxiliary="none",
    )


def detection(method: one_stage.DenseMethodName = "efl") -> DetectionRecipe:
    """ATSS with EFL on a COCO or LVIS file with boxes and a folder of images, from an ImageNet backbone."""
    return DetectionRecipe(
        data=CocoFiles(),
        preprocessing=ShorterSide(short=(320, 352, 384, 416, 448, 480), test_short=416, long=704),
        backbone=Lite0Pyramid(),
        detector=ImprovedAtss(),
        method=one_stage.METHODS[method],
        training=TrainSettings(
            optimizer=SGD(lr=0.02, momentum=0.9, weight_decay=1e-4),
            schedule=Schedule(epochs=24, decay=Cosine(), warmup=Warmup(200)),
            batch_size=8,
            max_grad_norm=35.0,
            channels_last=True,
            num_workers=2,
            log_every=50,
            evaluate_every=6,
        ),
        sampler="repeat_factor",
        repeat_threshold=0.01,
    )


def instance_segmentation(method: two_stage.RoIMethodName = "sigmoid_eql") -> DetectionRecipe:
    """Mask R-CNN on a COCO or LVIS file with masks and a folder of images, from an ImageNet backbone."""
    return DetectionRecipe(
        data=CocoFiles(),
        preprocessing=ShorterSide(short=(256, 288, 320, 352, 384), test_short=320, long=512),
        backbone=Lite0Pyramid(extra="pool"),
        # Anchors of 32 to 256 pixels; rare categories share the boxes and masks of all others.
        detector=RCNN(
            with_masks=True,
            class_agnostic=True,
            anchor_scale=4,
            num_features=512,
            num_mask_channels=64,
            num_proposals=300,
            rois=RoISampler(128),
        ),
        method=two_stage.METHODS[method],
        training=TrainSettings(
            optimizer=SGD(lr=0.01, momentum=0.9, weight_decay=1e-4),
            schedule=Schedule(epochs=24, decay=Cosine(), warmup=Warmup(100)),
            batch_size=8,
            max_grad_norm=35.0,
            num_workers=2,
            evaluate_every=6,
        ),
    )
