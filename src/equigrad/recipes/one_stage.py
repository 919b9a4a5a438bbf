"""LVIS v1, OpenImages and COCO, one-stage detectors: the paper's one-stage tables; those of YOLOX are in `yolox`.

    equigrad train one_stage:lvis_r50 --set method=efl --set data.train=lvis_v1_train.json \
        --set data.test=lvis_v1_val.json --set data.images=coco --run runs/efl

`method` is a row of the table. Baseline†, the improved baseline, is ATSS with the paper's improvements and focal loss;
EFL is trained with it. Its settings are those of the released code, which warms up for one epoch where the paper says
6,000 steps, and for 500 steps on OpenImages. Code of the other detectors is not public. They are built as in
mmdetection, and trained as Baseline† is: with the paper's learning rate of 0.02, its long warm-up and its clipped
gradients, which it found most one-stage detectors to need.
"""

from dataclasses import dataclass, replace
from typing import Literal

from equigrad.engine import Schedule, Warmup
from equigrad.models.detection.pyramids.feature_pyramid import ExtraLevels
from equigrad.recipes.detection_benchmarks import (
    CHECK_IMAGES,
    COCO,
    LVIS_V1_WITH_EMPTY,
    OPENIMAGES,
    SCHEDULE_2X,
    SCHEDULE_OPENIMAGES,
    detector_training,
)
from equigrad.recipes.methods.one_stage import METHODS
from equigrad.tasks.backbones import Depth, ResNetPyramid
from equigrad.tasks.detection.detectors import Atss, Fcos, ImprovedAtss, OneStageDetector, Paa, RetinaNet
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.losses import Efl
from equigrad.tasks.methods import DenseMethod

FL, FL_EQL, EFL = METHODS["fl"], METHODS["fl_eql"], METHODS["efl"]

_LONG_WARMUP = replace(SCHEDULE_2X, warmup=Warmup(1, "epochs"))


@dataclass(frozen=True)
class Design:
    """A detector, and the levels its pyramid has above P5; see `equigrad.models.detection.pyramids.feature_pyramid`."""

    detector: OneStageDetector
    extra: ExtraLevels
    extra_relu: bool = False


RETINANET = Design(RetinaNet(), "c5")
FCOS = Design(Fcos(), "p5", extra_relu=True)
PAA = Design(Paa(), "p5")
ATSS = Design(Atss(), "p5")
# The released code counts the last pixel of a box in its size here, and nowhere else.
IMPROVED_BASELINE = Design(ImprovedAtss(legacy_pixels=True), "lateral")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        label: what the paper calls it.
        method: how categories are learnt.
        design: the detector's design.
    """

    label: str
    method: DenseMethod
    design: Design = IMPROVED_BASELINE


def _scaled(focus_scale: float) -> DenseMethod:
    """EFL; the scale 0 is focal loss."""
    return DenseMethod(Efl(focus_scale=focus_scale))


MainName = Literal["retinanet", "baseline", "efl"]
MAIN: dict[MainName, Row] = {
    "retinanet": Row("RetinaNet", FL, RETINANET),
    "baseline": Row("Baseline†", FL),
    "efl": Row("EFL", EFL),
}


def lvis_r50(method: MainName = "efl") -> DetectionRecipe:
    """LVIS v1, one-stage detectors on ResNet-50, 2x."""
    return _lvis(MAIN[method], 50, table="main_results (ResNet-50, one-stage)")


def lvis_r101(method: MainName = "efl") -> DetectionRecipe:
    """LVIS v1, one-stage detectors on ResNet-101, 2x."""
    return _lvis(MAIN[method], 101, table="main_results (ResNet-101, one-stage)")


ComponentsName = Literal["none", "wf", "ff", "wf_ff"]
COMPONENTS: dict[ComponentsName, Row] = {
    "none": Row("none", FL),
    "wf": Row("WF", DenseMethod(Efl(focusing=False))),
    "ff": Row("FF", DenseMethod(Efl(weighting=False))),
    "wf_ff": Row("WF FF", EFL),
}


def components(method: ComponentsName = "wf_ff") -> DetectionRecipe:
    """LVIS v1, Baseline† on ResNet-50, 2x: weighting and focusing factor of EFL."""
    return _lvis(COMPONENTS[method], 50, table="ablation_study_components")


ScaleName = Literal["s0", "s1", "s2", "s4", "s8", "s12"]
SCALES: dict[ScaleName, Row] = {
    "s0": Row("s=0", _scaled(0.0)),
    "s1": Row("s=1", _scaled(1.0)),
    "s2": Row("s=2", _scaled(2.0)),
    "s4": Row("s=4", _scaled(4.0)),
    "s8": Row("s=8", _scaled(8.0)),
    "s12": Row("s=12", _scaled(12.0)),
}


def focus_scales(method: ScaleName = "s8") -> DetectionRecipe:
    """LVIS v1, Baseline† on ResNet-50, 2x: the scale s of EFL."""
    return _lvis(SCALES[method], 50, table="s_effect")


LossName = Literal["fl", "fl_eql", "efl"]
LOSSES: dict[LossName, Row] = {"fl": Row("FL", FL), "fl_eql": Row("FL+EQL", FL_EQL), "efl": Row("EFL", EFL)}


def lvis_fcos(method: LossName = "efl") -> DetectionRecipe:
    """LVIS v1, FCOS with centre sampling on ResNet-50, 2x."""
    return _lvis(replace(LOSSES[method], design=FCOS), 50, table="one_stage_with_efl (FCOS*)")


def lvis_paa(method: LossName = "efl") -> DetectionRecipe:
    """LVIS v1, PAA on ResNet-50, 2x."""
    return _lvis(replace(LOSSES[method], design=PAA), 50, table="one_stage_with_efl (PAA)")


def lvis_atss(method: LossName = "efl") -> DetectionRecipe:
    """LVIS v1, ATSS on ResNet-50, 2x."""
    return _lvis(replace(LOSSES[method], design=ATSS), 50, table="one_stage_with_efl (ATSS)")


def lvis_improved_baseline(method: LossName = "efl") -> DetectionRecipe:
    """LVIS v1, Baseline† on ResNet-50, 2x."""
    return _lvis(LOSSES[method], 50, table="one_stage_with_efl (Baseline†)")


def openimages_r50(method: MainName = "efl") -> DetectionRecipe:
    """OpenImages Challenge 2019, one-stage detectors on ResNet-50, 180k steps."""
    return _openimages(MAIN[method], 50)


def openimages_r101(method: MainName = "efl") -> DetectionRecipe:
    """OpenImages Challenge 2019, one-stage detectors on ResNet-101, 180k steps."""
    return _openimages(MAIN[method], 101)


CocoName = Literal["fl", "s2", "s4", "s8"]
COCO_ROWS: dict[CocoName, Row] = {
    "fl": Row("FL", FL),
    "s2": Row("EFL(s=2)", _scaled(2.0)),
    "s4": Row("EFL(s=4)", _scaled(4.0)),
    "s8": Row("EFL(s=8)", _scaled(8.0)),
}


def coco(method: CocoName = "s8") -> DetectionRecipe:
    """COCO, which is balanced, Baseline† on ResNet-50, 2x: the scale s of EFL."""
    recipe = _lvis(COCO_ROWS[method], 50, table="coco_results")
    return replace(recipe, data=COCO, sampler="random")


def _lvis(row: Row, depth: Depth, *, table: str, schedule: Schedule = _LONG_WARMUP) -> DetectionRecipe:
    """A detector on LVIS v1 with repeat-factor sampling."""
    design = row.design
    return DetectionRecipe(
        data=LVIS_V1_WITH_EMPTY,
        preprocessing=ShorterSide(),
        backbone=ResNetPyramid(depth, extra=design.extra, extra_relu=design.extra_relu),
        detector=design.detector,
        method=row.method,
        training=replace(detector_training(schedule), max_grad_norm=35.0),
        sampler="repeat_factor",
        check_images=CHECK_IMAGES,
        table=table,
        row=row.label,
    )


def _openimages(row: Row, depth: Depth) -> DetectionRecipe:
    """A detector on OpenImages, at one size and with the random sampler, as released; tested at the end."""
    recipe = _lvis(row, depth, table=f"oid_results (R{depth}, one-stage)", schedule=SCHEDULE_OPENIMAGES)
    preprocessing = ShorterSide(short=(800,))
    return replace(recipe, data=OPENIMAGES, preprocessing=preprocessing, sampler="random", check_images=None)
