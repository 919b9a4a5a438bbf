"""Losses at the class counts of the paper's benchmarks, where images cannot be had: a simulation on made features.

    python benchmarks/class_counts.py
    python benchmarks/class_counts.py --page docs/evidence/class_counts.md

A row takes seconds of one core. Rows are kept in `runs/class_counts`: the same command continues where it was stopped.
"""

from pathlib import Path

from made_features import MIXTURES
from simulated_heads import (
    BALANCED_SOFTMAX,
    BCE,
    CE,
    CE_BACKGROUND,
    EFL,
    FL,
    LOGIT_ADJUSTMENT,
    SIGMOID_EQL,
    SIGMOID_EQL_OBJECTNESS,
    SOFTMAX_EQL,
    SOFTMAX_EQL_OBJECTNESS,
    softmax_eql,
)
from simulations import Simulation, main

_IMAGES = {
    "CE": CE,
    "Softmax-EQL": SOFTMAX_EQL,
    "Softmax-EQL, power 2": softmax_eql(2.0),
    "Balanced Softmax": BALANCED_SOFTMAX,
    "Logit Adjustment, 1.5": LOGIT_ADJUSTMENT,
    "BCE": BCE,
    "Sigmoid-EQL": SIGMOID_EQL,
}
_ROIS = {
    "CE": CE_BACKGROUND,
    "Softmax-EQL": SOFTMAX_EQL_OBJECTNESS,
    "BCE": BCE,
    "Sigmoid-EQL": SIGMOID_EQL_OBJECTNESS,
}
_ANCHORS = {"FL": FL, "EFL": EFL}
_AGAINST = {
    **dict.fromkeys(("Softmax-EQL", "Balanced Softmax", "Logit Adjustment, 1.5"), "CE"),
    "Softmax-EQL, power 2": "Softmax-EQL",
    "Sigmoid-EQL": "BCE",
    "EFL": "FL",
}
_SOFTMAX = {name: head for name, head in _IMAGES.items() if not name.endswith(("BCE", "Sigmoid-EQL"))}
_THREE = {name: _IMAGES[name] for name in ("CE", "Softmax-EQL", "Balanced Softmax")}

SIMULATIONS = {
    "places_lt": Simulation(MIXTURES["places_lt"], _IMAGES, _AGAINST),
    "lvis_objects": Simulation(MIXTURES["lvis_objects"], _SOFTMAX, _AGAINST),
    "inaturalist": Simulation(MIXTURES["inaturalist"], _THREE, _AGAINST),
    "openimages_rois": Simulation(MIXTURES["openimages_rois"], _ROIS, _AGAINST),
    "lvis_rois": Simulation(MIXTURES["lvis_rois"], _ROIS, _AGAINST),
    "lvis_anchors": Simulation(MIXTURES["lvis_anchors"], _ANCHORS, _AGAINST),
}

if __name__ == "__main__":
    main(__doc__, Path("runs/class_counts"), SIMULATIONS)
