"""Your own data, without a line of Python.

equigrad train own_data:classification --set data.train=photos/train --set data.test=photos/test
equigrad train own_data:semantic_segmentation --set data.images=photos --set data.labels=maps --set data.names=names.txt
"""

from dataclasses import replace

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.engine.schedule import Poly
from equigrad.models.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.recipes import camvid, methods
from equigrad.recipes.backbones import Backbone
from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.image_data import OwnImages
from equigrad.recipes.pixel_methods import PixelMethodName
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
