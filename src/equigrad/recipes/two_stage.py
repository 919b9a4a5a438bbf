"""LVIS v1 and OpenImages, Faster and Mask R-CNN: the paper's two-stage tables.

    equigrad train two_stage:lvis_mask_rcnn_r50 --set method=sigmoid_eql --set data.train=lvis_v1_train.json \
        --set data.test=lvis_v1_val.json --set data.images=coco --run runs/sigmoid_eql

`method` is a row of the table; `--init RUN` names the run that a second stage (cRT, LWS, BAGS) starts from:

    equigrad train two_stage:decoupled --set method=ce … --run runs/ce
    equigrad train two_stage:decoupled --set method=crt --set init=runs/ce … --run runs/crt
    equigrad train two_stage:better_representation --set method=crt_eql --set init=runs/sigmoid_eql …

NorCal is another reading of a run with CE, which is not trained again for it:

    equigrad evaluate runs/faster_ce --set method=norcal --set method.scores.power=0.4 --output runs/norcal

Settings are those of the released code. Where neither it nor the paper has a setting, docstrings say what is done here.
"""

from dataclasses import dataclass, replace
from typing import Literal

from equigrad.engine import Schedule
from equigrad.recipes.detection_benchmarks import (
    CHECK_IMAGES,
    LVIS_V1,
    NUM_LVIS_V1_IMAGES,
    OPENIMAGES,
    SCHEDULE_1X,
    SCHEDULE_2X,
    SCHEDULE_3X,
    SCHEDULE_CLASS_BALANCED,
    SCHEDULE_OPENIMAGES,
    detector_training,
)
from equigrad.recipes.methods.two_stage import (
    BAGS,
    BCE,
    BCE_OBJECTNESS,
    CE,
    NORCAL,
    SEESAW,
    SEESAW_COSINE,
    SIGMOID_EQL,
    SOFTMAX_EQL,
    SOFTMAX_EQL_COSINE,
    gradient_blocking,
    sigmoid_eql,
)
from equigrad.tasks.backbones import Depth, ResNetPyramid
from equigrad.tasks.detection.detectors import RCNN
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.detection.second_stages import NewClassifier, NewScales
from equigrad.tasks.losses import GradientBlocking, SigmoidEql
from equigrad.tasks.methods import RoIMethod
from equigrad.tasks.samplers import SamplerKind

GRAD_BLOCKING_LVIS = gradient_blocking(GradientBlocking(threshold=0.0011 * NUM_LVIS_V1_IMAGES))
GRAD_BLOCKING_OPENIMAGES = gradient_blocking(GradientBlocking(threshold=1652.0, count_by="instances"))


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        label: what the paper calls it.
        method: how categories are learnt and read.
        sampler: order of the training images.
        second_stage: for what starts from a finished run.
        schedule: where it is not that of the table.
    """

    label: str
    method: RoIMethod
    sampler: SamplerKind = "random"
    second_stage: NewClassifier | NewScales | None = None
    schedule: Schedule | None = None


ComparedName = Literal[
    "ce",
    "grad_blocking",
    "rfs",
    "bags",
    "seesaw",
    "seesaw_linear",
    "softmax_eql",
    "softmax_eql_cosine",
    "sigmoid_eql",
]
COMPARED: dict[ComparedName, Row] = {
    "ce": Row("CE baseline", CE),
    "grad_blocking": Row("Grad-Blocking", GRAD_BLOCKING_LVIS),
    "rfs": Row("RFS", CE, sampler="repeat_factor"),
    "bags": Row("BAGS", BAGS),
    "seesaw": Row("Seesaw Loss", SEESAW_COSINE),
    "seesaw_linear": Row("Seesaw Loss", SEESAW),
    "softmax_eql": Row("Softmax-EQL", SOFTMAX_EQL),
    "softmax_eql_cosine": Row("Softmax-EQL", SOFTMAX_EQL_COSINE),
    "sigmoid_eql": Row("Sigmoid-EQL", SIGMOID_EQL),
}


def lvis_mask_rcnn_r50(method: ComparedName = "sigmoid_eql") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-50, 2x.

    All rows are end-to-end, as the caption says: BAGS, too, has its grouped softmax from the first step on; `decoupled`
    has the BAGS of its own paper. Seesaw has the cosine classifier it was published with, `seesaw_linear` a linear one.
    The paper does not say which one Softmax-EQL had: `softmax_eql` is linear as in its formulas, `softmax_eql_cosine`
    as in the released classifier.
    """
    return _lvis(COMPARED[method], 50, SCHEDULE_2X, table="comparison_sota_lvis1 (R50 Mask R-CNN)")


def lvis_mask_rcnn_r101(method: ComparedName = "sigmoid_eql") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-101, 2x; rows as on ResNet-50."""
    return _lvis(COMPARED[method], 101, SCHEDULE_2X, table="comparison_sota_lvis1 (R101 Mask R-CNN)")


LongerName = Literal["ce", "sigmoid_eql"]


def lvis_mask_rcnn_r50_3x(method: LongerName = "sigmoid_eql") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-50, 3x."""
    return _lvis(COMPARED[method], 50, SCHEDULE_3X, table="longer_schedule (ResNet-50)")


def lvis_mask_rcnn_r101_3x(method: LongerName = "sigmoid_eql") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-101, 3x."""
    return _lvis(COMPARED[method], 101, SCHEDULE_3X, table="longer_schedule (ResNet-101)")


ComponentsName = Literal["none", "obj", "obj_neg", "obj_pos", "obj_neg_pos"]
COMPONENTS: dict[ComponentsName, Row] = {
    "none": Row("none", BCE),
    "obj": Row("obj", BCE_OBJECTNESS),
    "obj_neg": Row("obj neg", sigmoid_eql(SigmoidEql(reweight_positive=False))),
    "obj_pos": Row("obj pos", sigmoid_eql(SigmoidEql(reweight_negative=False))),
    "obj_neg_pos": Row("obj neg pos", SIGMOID_EQL),
}


def components(method: ComponentsName = "obj_neg_pos") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-50, 1x: objectness branch, negative and positive weights of Sigmoid-EQL.

    The printed first row has the mask AP of CE and the box AP of BCE (`compare_e2e_decouple`); here it is BCE.
    """
    return _lvis(COMPONENTS[method], 50, SCHEDULE_1X, table="component_analysis")


MappingsName = Literal[
    "sqrt_neg",
    "sqrt_neg_pos",
    "linear_neg",
    "linear_neg_pos",
    "exp_neg",
    "exp_neg_pos",
    "sigmoid_neg",
    "sigmoid_neg_pos",
]
MAPPINGS: dict[MappingsName, Row] = {
    "sqrt_neg": Row("sqrt, neg", sigmoid_eql(SigmoidEql(mapping="sqrt", reweight_positive=False))),
    "sqrt_neg_pos": Row("sqrt, neg pos", sigmoid_eql(SigmoidEql(mapping="sqrt"))),
    "linear_neg": Row("linear, neg", sigmoid_eql(SigmoidEql(mapping="linear", reweight_positive=False))),
    "linear_neg_pos": Row("linear, neg pos", sigmoid_eql(SigmoidEql(mapping="linear"))),
    "exp_neg": Row("exp, neg", sigmoid_eql(SigmoidEql(mapping="square", reweight_positive=False))),
    "exp_neg_pos": Row("exp, neg pos", sigmoid_eql(SigmoidEql(mapping="square"))),
    "sigmoid_neg": Row("sigmoid-like, neg", sigmoid_eql(SigmoidEql(reweight_positive=False))),
    "sigmoid_neg_pos": Row("sigmoid-like, neg pos", SIGMOID_EQL),
}


def mappings(method: MappingsName = "sigmoid_neg_pos") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-50, 1x: mappings of Sigmoid-EQL; `exp` is the paper's name for the square."""
    return _lvis(MAPPINGS[method], 50, SCHEDULE_1X, table="mapping_func")


DecoupledName = Literal["ce", "bce", "lws", "crt", "bags", "softmax_eql", "softmax_eql_cosine", "sigmoid_eql"]
DECOUPLED: dict[DecoupledName, Row] = {
    "ce": Row("CE", CE),
    "bce": Row("BCE", BCE),
    "lws": Row("LWS", CE, "class_balanced", NewScales(), SCHEDULE_CLASS_BALANCED),
    "crt": Row("cRT", CE, "class_balanced", NewClassifier(), SCHEDULE_CLASS_BALANCED),
    "bags": Row("BAGS", BAGS, second_stage=NewClassifier()),
    "softmax_eql": COMPARED["softmax_eql"],
    "softmax_eql_cosine": COMPARED["softmax_eql_cosine"],
    "sigmoid_eql": COMPARED["sigmoid_eql"],
}


def decoupled(method: DecoupledName = "crt") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-50, 1x, and as long again for LWS, cRT and BAGS, which start from a run with CE."""
    return _lvis(DECOUPLED[method], 50, SCHEDULE_1X, table="compare_e2e_decouple")


RepresentationName = Literal["crt", "crt_eql", "lws", "lws_eql", "bags", "bags_eql"]
REPRESENTATION: dict[RepresentationName, Row] = {
    "crt": Row("cRT", CE, second_stage=NewClassifier()),
    "crt_eql": Row("cRT, EQL", CE, second_stage=NewClassifier()),
    "lws": Row("LWS", CE, second_stage=NewScales()),
    "lws_eql": Row("LWS, EQL", BCE_OBJECTNESS, second_stage=NewScales()),
    "bags": Row("BAGS", BAGS, second_stage=NewClassifier()),
    "bags_eql": Row("BAGS, EQL", BAGS, second_stage=NewClassifier()),
}


def better_representation(method: RepresentationName = "crt_eql") -> DetectionRecipe:
    """LVIS v1, Mask R-CNN on ResNet-50: second stages of 1x from a run with CE or, `_eql`, with Sigmoid-EQL.

    All with the random sampler, as the caption says. The runs to start from are those of `decoupled`. cRT and BAGS
    differ in `init` alone. LWS keeps a classifier that Sigmoid-EQL trained, which is sigmoids with objectness; it goes
    on as such with plain weights, so that the stage begins with what the first one ended with. No code of this row is
    public: the released LWS would also run, and take the same columns for a softmax with background.
    """
    return _lvis(REPRESENTATION[method], 50, SCHEDULE_1X, table="better_repr")


FasterName = Literal["ce", "grad_blocking", "seesaw", "crt", "bags", "norcal"]
FasterR101Name = Literal["ce", "seesaw", "bags", "norcal"]
FASTER: dict[FasterName, Row] = {
    "ce": Row("Faster R-CNN", CE, "repeat_factor"),
    "grad_blocking": Row("Grad-Blocking", GRAD_BLOCKING_LVIS, "repeat_factor"),
    "seesaw": Row("Seesaw Loss", SEESAW_COSINE, "repeat_factor"),
    "crt": Row("cRT", CE, "class_balanced", NewClassifier(), SCHEDULE_1X),
    "bags": Row("BAGS", BAGS, "class_balanced", NewClassifier(), SCHEDULE_1X),
    "norcal": Row("NorCal", NORCAL, "repeat_factor"),
}


def lvis_faster_rcnn_r50(method: FasterName = "ce") -> DetectionRecipe:
    """LVIS v1, Faster R-CNN on ResNet-50, 2x with RFS; cRT and BAGS follow on CE with 1x, class-balanced."""
    return _lvis(FASTER[method], 50, SCHEDULE_2X, table="main_results (ResNet-50, two-stage)", with_masks=False)


def lvis_faster_rcnn_r101(method: FasterR101Name = "ce") -> DetectionRecipe:
    """LVIS v1, Faster R-CNN on ResNet-101, 2x with RFS; BAGS follows on CE with 1x, class-balanced."""
    return _lvis(FASTER[method], 101, SCHEDULE_2X, table="main_results (ResNet-101, two-stage)", with_masks=False)


OpenImagesName = Literal["ce", "grad_blocking", "sigmoid_eql"]
OPENIMAGES_ROWS: dict[OpenImagesName, Row] = {
    "ce": Row("Faster R-CNN", CE),
    "grad_blocking": Row("Grad-Blocking", GRAD_BLOCKING_OPENIMAGES),
    "sigmoid_eql": Row("Sigmoid-EQL", SIGMOID_EQL),
}


def openimages_faster_rcnn_r50(method: OpenImagesName = "sigmoid_eql") -> DetectionRecipe:
    """OpenImages Challenge 2019, Faster R-CNN on ResNet-50, 180k steps."""
    return _openimages(OPENIMAGES_ROWS[method], 50)


def openimages_faster_rcnn_r101(method: OpenImagesName = "sigmoid_eql") -> DetectionRecipe:
    """OpenImages Challenge 2019, Faster R-CNN on ResNet-101, 180k steps."""
    return _openimages(OPENIMAGES_ROWS[method], 101)


BaselineName = Literal["ce"]


def openimages_baseline_r50(method: BaselineName = "ce") -> DetectionRecipe:
    """OpenImages Challenge 2019, Faster R-CNN with CE on ResNet-50: what one-stage detectors are compared with."""
    return replace(openimages_faster_rcnn_r50(method), table="oid_results (R50, two-stage)")


def openimages_baseline_r101(method: BaselineName = "ce") -> DetectionRecipe:
    """OpenImages Challenge 2019, Faster R-CNN with CE on ResNet-101: what one-stage detectors are compared with."""
    return replace(openimages_faster_rcnn_r101(method), table="oid_results (R101, two-stage)")


def _lvis(row: Row, depth: Depth, schedule: Schedule, *, table: str, with_masks: bool = True) -> DetectionRecipe:
    """Mask or Faster R-CNN on LVIS v1."""
    return DetectionRecipe(
        data=LVIS_V1,
        preprocessing=ShorterSide(),
        backbone=ResNetPyramid(depth, extra="pool"),
        detector=RCNN(with_masks=with_masks, aligned=True, box_loss="l1"),  # as in the released code
        method=row.method,
        training=detector_training(row.schedule or schedule),
        sampler=row.sampler,
        second_stage=row.second_stage,
        check_images=CHECK_IMAGES,
        table=table,
        row=row.label,
    )


def _openimages(row: Row, depth: Depth) -> DetectionRecipe:
    """Faster R-CNN on OpenImages, at one size; tested at the end."""
    recipe = _lvis(row, depth, SCHEDULE_OPENIMAGES, table=f"openimage (R{depth})", with_masks=False)
    return replace(recipe, data=OPENIMAGES, preprocessing=ShorterSide(short=(800,)), check_images=None)
