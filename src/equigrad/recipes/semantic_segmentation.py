"""ADE20K and ADE20K-LT: the paper's tables `ade20k_results` and `ade20k_lt_results`.

    equigrad data ade20k-lt ADEChallengeData2016 --output ade20k_lt_train.txt
    equigrad train semantic_segmentation:ade20k_lt_pspnet_r50 --set method=softmax_eql \
        --set data.root=ADEChallengeData2016 --set data.train_list=ade20k_lt_train.txt \
        --set backbone.weights=resnet50_v1c.pth

`method` is a row of the table. No code of this part of the paper is public: settings are those of mmsegmentation, which
the published numbers match, and which starts from ImageNet weights of ResNets with a deep stem (V1c). With
`--set deep_stem=false` torchvision's weights fit instead; `--set backbone.weights=none` starts from scratch.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from equigrad.engine import SGD, Poly, Schedule, TrainSettings
from equigrad.recipes.methods.segmentation import PixelMethodName, pixel_method, row_of
from equigrad.tasks.backbones import Depth, DilatedResNet
from equigrad.tasks.segmentation.data import Ade20k
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

HeadName = Literal["PSPNet", "DeepLabV3+"]

_HEADS: dict[HeadName, PSPNet | DeepLabV3Plus] = {"PSPNet": PSPNet(), "DeepLabV3+": DeepLabV3Plus()}

ADE20K_LT_LIST = Path("ade20k_lt_train.txt")  # as `equigrad data ade20k-lt` calls it


def ade20k_lt_pspnet_r50(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K-LT, PSPNet on ResNet-50, 40k steps."""
    return _long_tailed(_ade20k("PSPNet", 50, method, deep_stem))


def ade20k_lt_pspnet_r101(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K-LT, PSPNet on ResNet-101, 40k steps."""
    return _long_tailed(_ade20k("PSPNet", 101, method, deep_stem))


def ade20k_lt_deeplabv3plus_r50(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K-LT, DeepLabV3+ on ResNet-50, 40k steps."""
    return _long_tailed(_ade20k("DeepLabV3+", 50, method, deep_stem))


def ade20k_lt_deeplabv3plus_r101(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K-LT, DeepLabV3+ on ResNet-101, 40k steps."""
    return _long_tailed(_ade20k("DeepLabV3+", 101, method, deep_stem))


def ade20k_pspnet_r50(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K, PSPNet on ResNet-50, 80k steps."""
    return _ade20k("PSPNet", 50, method, deep_stem)


def ade20k_pspnet_r101(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K, PSPNet on ResNet-101, 80k steps."""
    return _ade20k("PSPNet", 101, method, deep_stem)


def ade20k_deeplabv3plus_r50(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K, DeepLabV3+ on ResNet-50, 80k steps."""
    return _ade20k("DeepLabV3+", 50, method, deep_stem)


def ade20k_deeplabv3plus_r101(method: PixelMethodName = "ce", deep_stem: bool = True) -> SegmentationRecipe:
    """ADE20K, DeepLabV3+ on ResNet-101, 80k steps."""
    return _ade20k("DeepLabV3+", 101, method, deep_stem)


def _ade20k(head: HeadName, depth: Depth, method: PixelMethodName, deep_stem: bool) -> SegmentationRecipe:
    weights = f"resnet{depth}_v1c.pth" if deep_stem else f"resnet{depth}.pth"
    return SegmentationRecipe(
        data=Ade20k(),
        # A file that is not there stops the training: from scratch it would not come near the published numbers.
        backbone=DilatedResNet(depth, weights, deep_stem),
        head=_HEADS[head],
        method=pixel_method(method),
        training=TrainSettings(
            optimizer=SGD(lr=0.01, momentum=0.9, weight_decay=5e-4),
            schedule=Schedule(steps=80_000, decay=Poly(power=0.9, floor=0.01)),
            batch_size=16,
            sync_batch_norm=True,
            num_workers=4,
            checkpoint_every=2000,
            evaluate_every=13,  # about 16,000 steps
        ),
        table=f"ade20k_results ({head}, R{depth})",
        row=row_of(method),
    )


def _long_tailed(recipe: SegmentationRecipe) -> SegmentationRecipe:
    """ADE20K-LT: fewer images, half the steps."""
    schedule = replace(recipe.training.schedule, steps=40_000)
    return replace(
        recipe,
        data=Ade20k(train_list=ADE20K_LT_LIST),
        training=replace(recipe.training, schedule=schedule),
        table=recipe.table.replace("ade20k_results", "ade20k_lt_results"),
    )
