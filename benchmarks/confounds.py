"""What else than the loss could explain its gain? One table for each candidate, on made features.

    python benchmarks/confounds.py
    python benchmarks/confounds.py --page docs/evidence/confounds.md

A row takes a second of one core. Rows are kept in `runs/confounds`: the same command continues where it was stopped.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from disturbed_features import Drifting, EasyNegatives, LabelNoise, Redundant
from made_features import MIXTURES, TrainingSet
from simulated_heads import (
    BALANCED_SOFTMAX,
    BCE,
    BCE_OBJECTNESS,
    CE,
    CE_BACKGROUND,
    CE_OBJECTNESS,
    EFL,
    FL,
    SIGMOID_EQL,
    SIGMOID_EQL_OBJECTNESS,
    SOFTMAX_EQL,
    SOFTMAX_EQL_OBJECTNESS,
    Head,
    grad_blocking,
    softmax_eql,
)
from simulations import Simulation, main
from torch import Tensor


def repeat_factor(counts: Tensor) -> Tensor:
    """How often repeat-factor sampling draws each category; those below 100 images are repeated, as on LVIS."""
    return counts * (100 / counts).sqrt().clamp(min=1)


def sampled(losses: Mapping[str, Head], *names: str) -> dict[str, Head]:
    """Every loss with each of these samplers; "" is none."""
    samplers = {"": None, "RFS": repeat_factor, "class-balanced": torch.ones_like}
    return {
        f"{loss}, {name}" if name else loss: replace(head, frequencies=samplers[name])
        for loss, head in losses.items()
        for name in names
    }


def against_plain(plain: str, equalized: str) -> dict[str, str]:
    """The sampler with the plain loss against that loss, and the equalized loss against it with the same sampler."""
    return {f"{plain}, RFS": plain, equalized: plain, f"{equalized}, RFS": f"{plain}, RFS"}


_LOSSES = {"CE": CE, "Balanced Softmax": BALANCED_SOFTMAX, "Softmax-EQL": SOFTMAX_EQL}
_ADAMW_LR = 0.01

_CLASSIFIERS = {
    name: head
    for loss, linear in _LOSSES.items()
    for name, head in {loss: linear, f"{loss}, cosine": replace(linear, cosine=True)}.items()
}
_OPTIMIZERS = {
    "FL, SGD": FL,
    "EFL, SGD": EFL,
    "FL, AdamW": replace(FL, optimizer=torch.optim.AdamW, lr=_ADAMW_LR),
    "EFL, AdamW": replace(EFL, optimizer=torch.optim.AdamW, lr=_ADAMW_LR),
}
_OBJECTNESS = {
    "BCE": BCE,
    "BCE, objectness": BCE_OBJECTNESS,
    "Sigmoid-EQL without objectness": SIGMOID_EQL,
    "Sigmoid-EQL": SIGMOID_EQL_OBJECTNESS,
}
_SOFTMAX_OBJECTNESS = {
    "CE": CE_BACKGROUND,
    "CE, objectness": CE_OBJECTNESS,
    "Softmax-EQL": SOFTMAX_EQL_OBJECTNESS,
}
_SAMPLERS = sampled(_LOSSES, "", "RFS", "class-balanced")
_WITH_SAMPLER = sampled(_LOSSES, "RFS", "class-balanced")
_ROI_LOSSES = {"BCE": BCE, "Sigmoid-EQL without objectness": SIGMOID_EQL}
_ANCHOR_LOSSES = {"FL": FL, "EFL": EFL}
_STREAM = {**_LOSSES, "Softmax-EQL, half_life 50": softmax_eql(1.0, half_life=50.0)}
_EASY = {"BCE": BCE, "Grad-Blocking": grad_blocking(100), "Sigmoid-EQL without objectness": SIGMOID_EQL}

_BY_CE = dict.fromkeys(("Balanced Softmax", "Softmax-EQL", "Softmax-EQL, half_life 50"), "CE")
_BY_BCE = dict.fromkeys(("Grad-Blocking", "Sigmoid-EQL without objectness"), "BCE")
_BY_WEIGHTS = {
    **dict.fromkeys(("BCE, objectness", "Sigmoid-EQL without objectness"), "BCE"),
    "Sigmoid-EQL": "Sigmoid-EQL without objectness",
    "CE, objectness": "CE",
    "Softmax-EQL": "CE, objectness",
}
_PLACES, _ROIS, _ANCHORS = MIXTURES["places_100"], MIXTURES["rois_100"], MIXTURES["anchors_100"]
_VISIBLE = replace(_ROIS, object_shift=4.0)

SIMULATIONS = {
    "classifier_places": Simulation(_PLACES, _CLASSIFIERS, {f"{loss}, cosine": loss for loss in _LOSSES}),
    "objectness": Simulation(_ROIS, _OBJECTNESS, _BY_WEIGHTS),
    "objectness_softmax": Simulation(_ROIS, _SOFTMAX_OBJECTNESS, _BY_WEIGHTS),
    "objectness_visible": Simulation(_VISIBLE, _OBJECTNESS, _BY_WEIGHTS),
    "objectness_softmax_visible": Simulation(_VISIBLE, _SOFTMAX_OBJECTNESS, _BY_WEIGHTS),
    "optimizer": Simulation(_ANCHORS, _OPTIMIZERS, {f"EFL, {name}": f"FL, {name}" for name in ("SGD", "AdamW")}),
    "sampler": Simulation(_PLACES, _SAMPLERS, {name: name.partition(",")[0] for name in _SAMPLERS}, TrainingSet),
    "loss_with_sampler": Simulation(
        _PLACES, _WITH_SAMPLER, {name: f"CE, {name.partition(', ')[2]}" for name in _WITH_SAMPLER}, TrainingSet
    ),
    "sampler_rois": Simulation(_ROIS, sampled(_ROI_LOSSES, "", "RFS"), against_plain(*_ROI_LOSSES), TrainingSet),
    "sampler_anchors": Simulation(
        _ANCHORS, sampled(_ANCHOR_LOSSES, "", "RFS"), against_plain(*_ANCHOR_LOSSES), TrainingSet
    ),
    "undisturbed": Simulation(_PLACES, _LOSSES, _BY_CE),
    "redundant": Simulation(_PLACES, _LOSSES, _BY_CE, Redundant),
    "label_noise": Simulation(_PLACES, _LOSSES, _BY_CE, LabelNoise),
    "drift": Simulation(_PLACES, _STREAM, _BY_CE, Drifting),
    "hard_negatives": Simulation(_ROIS, _EASY, _BY_BCE),
    "easy_negatives": Simulation(_ROIS, _EASY, _BY_BCE, EasyNegatives),
}

if __name__ == "__main__":
    main(__doc__, Path("runs/confounds"), SIMULATIONS)
