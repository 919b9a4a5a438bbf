"""LVIS v1, YOLOX and YOLOX*, the variant that suits focal losses: the paper's table `yolox_results`.

    equigrad train yolox:lvis_medium --set method=eqfl --set data.train=lvis_v1_train.json \
        --set data.test=lvis_v1_val.json --set data.images=coco --run runs/eqfl

`method` is a row of the table: `sigmoid` is YOLOX as its authors published it, the others are YOLOX*. Settings are
those of the released code, with s = 4 in EFL and EQFL. All is trained from scratch for 300 epochs, the last 15 without
mosaics at a constant learning rate; `--set epochs=N` shortens the rest. Batch norms are not synchronised. Their running
means and variances are averaged over ranks: in the released code after each epoch, here for evaluations and
checkpoints.
"""

from dataclasses import replace
from typing import Literal

from equigrad.engine import SGD, Ema, ParameterRule, yolox_schedule
from equigrad.recipes.detection_benchmarks import CHECK_IMAGES, LVIS_V1_WITH_EMPTY, detector_training
from equigrad.recipes.methods.one_stage import METHODS, SOFT_BCE
from equigrad.tasks.backbones import CspDarknet
from equigrad.tasks.detection.detectors import Yolox, YoloxStar
from equigrad.tasks.detection.preprocessing import Mosaics
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.losses import Efl, Eqfl
from equigrad.tasks.methods import DenseMethod

YoloxName = Literal["sigmoid", "fl", "efl", "qfl", "eqfl"]
ROWS: dict[YoloxName, tuple[str, DenseMethod]] = {
    "sigmoid": ("Sigmoid", SOFT_BCE),
    "fl": ("FL", METHODS["fl"]),
    "efl": ("EFL", DenseMethod(Efl(focus_scale=4.0))),
    "qfl": ("QFL", METHODS["qfl"]),
    "eqfl": ("EQFL", DenseMethod(Eqfl(focus_scale=4.0))),
}

_NUM_PLAIN_EPOCHS = 15
# YOLOX* decays the biases of its classifiers, and no others.
_DECAYED_BIASES = ParameterRule("head.levels.*.logits.bias", weight_decay=1.0)


def lvis_small(method: YoloxName = "eqfl", epochs: int = 300) -> DetectionRecipe:
    """LVIS v1, YOLOX-S and YOLOX*-S from scratch, 300 epochs."""
    return _lvis(CspDarknet("s"), method, epochs, table="yolox_results (small)")


def lvis_medium(method: YoloxName = "eqfl", epochs: int = 300) -> DetectionRecipe:
    """LVIS v1, YOLOX-M and YOLOX*-M from scratch, 300 epochs."""
    return _lvis(CspDarknet("m"), method, epochs, table="yolox_results (medium)")


def _lvis(backbone: CspDarknet, name: YoloxName, epochs: int, *, table: str) -> DetectionRecipe:
    label, method = ROWS[name]
    num_strong_epochs = epochs - _NUM_PLAIN_EPOCHS
    optimizer = SGD(lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4, decay_norm_and_bias=False)
    base = detector_training(yolox_schedule(epochs))
    training = replace(base, optimizer=optimizer, batch_size=128, ema=Ema(), average_batch_norm=True)
    recipe = DetectionRecipe(
        data=LVIS_V1_WITH_EMPTY,
        preprocessing=Mosaics(num_strong_epochs=num_strong_epochs),
        backbone=backbone,
        detector=Yolox(first_l1_epoch=num_strong_epochs),
        method=method,
        training=training,
        sampler="repeat_factor",
        check_images=CHECK_IMAGES,
        table=table,
        row=label,
    )
    return recipe if name == "sigmoid" else _starred(recipe)


def _starred(recipe: DetectionRecipe) -> DetectionRecipe:
    """YOLOX*: another head, assignment and box loss, twice the learning rate, decayed biases of the classifiers."""
    optimizer = replace(recipe.training.optimizer, lr=0.04, rules=(_DECAYED_BIASES,))
    training = replace(recipe.training, optimizer=optimizer)
    return replace(recipe, detector=YoloxStar(), training=training)
