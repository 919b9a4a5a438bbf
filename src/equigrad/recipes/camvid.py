"""CamVid on a CPU: 31 categories of road scenes, 6,500 pixels of the most frequent for each of the rarest.

equigrad train camvid:deeplabv3plus_lite0 --set method=softmax_eql --set data.root=FOLDER
"""

from equigrad.engine import SGD, Poly, Schedule, TrainSettings, Warmup
from equigrad.recipes.methods.segmentation import PixelMethodName, pixel_method
from equigrad.tasks.backbones import DilatedLite0
from equigrad.tasks.segmentation.data import CamVid
from equigrad.tasks.segmentation.heads import DeepLabV3Plus
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

# Up to a stride of 4, where a step spends a third of its time.
_LOW_BLOCKS = ("backbone.stem", "backbone.blocks.0", "backbone.blocks.1", "backbone.blocks.2")


def deeplabv3plus_lite0(method: PixelMethodName = "ce") -> SegmentationRecipe:
    """DeepLabV3+ on EfficientNet-Lite0 from ImageNet, its low blocks as they are, crops of 192 x 144, 24 epochs."""
    return SegmentationRecipe(
        data=CamVid(crop_size=(144, 192)),
        backbone=DilatedLite0(),
        head=DeepLabV3Plus(channels=128, dilations=(1, 6, 12, 18)),  # light, and for a stride of 16
        method=pixel_method(method),
        training=TrainSettings(
            optimizer=SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
            schedule=Schedule(epochs=24, decay=Poly(), warmup=Warmup(20)),
            batch_size=8,
            frozen=_LOW_BLOCKS,
            max_grad_norm=10.0,
            channels_last=True,
            num_workers=1,
            log_every=20,
            evaluate_every=100,
        ),
        auxiliary="none",
    )
