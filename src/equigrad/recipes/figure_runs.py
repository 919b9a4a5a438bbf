"""The runs that the paper's figures show."""

from typing import NamedTuple

from equigrad.recipes.table_rows import RowRecipe


class ObservedTask(NamedTuple):
    """A column of `grad_ob`: the same plain loss on long-tailed and on balanced data."""

    title: str
    long_tailed: RowRecipe
    balanced: RowRecipe
    names: tuple[str, str]  # of the two data sets


GRAD_OB = (
    ObservedTask(
        "image classification",
        RowRecipe("image_classification:imagenet_lt_resnet50", "ce"),
        RowRecipe("balanced:imagenet_resnet50", "ce"),
        ("ImageNet-LT", "ImageNet"),
    ),
    ObservedTask(
        "two-stage detection",
        RowRecipe("two_stage:lvis_mask_rcnn_r50", "ce"),
        RowRecipe("balanced:coco_mask_rcnn_r50", "ce"),
        ("LVIS", "COCO"),
    ),
    ObservedTask(
        "one-stage detection",
        RowRecipe("one_stage:lvis_r50", "baseline"),
        RowRecipe("one_stage:coco", "fl"),
        ("LVIS", "COCO"),
    ),
    ObservedTask(
        "semantic segmentation",
        RowRecipe("semantic_segmentation:ade20k_lt_pspnet_r50", "ce"),
        RowRecipe("semantic_segmentation:ade20k_pspnet_r50", "ce"),
        ("ADE20K-LT", "ADE20K"),
    ),
)

VIS_BALANCE_RATIO = {
    "BCE": RowRecipe("two_stage:components", "none"),
    "Sigmoid-EQL": RowRecipe("two_stage:components", "obj_neg_pos"),
}
VIS_OD = {
    "focal loss": RowRecipe("one_stage:lvis_r50", "baseline"),
    "EFL": RowRecipe("one_stage:lvis_r50", "efl"),
}
"""The improved baseline with either loss."""
