"""What `equigrad.models` exports."""

import subprocess
import sys

import pytest

import equigrad
from equigrad import models
from models.small_detectors import NUM_CLASSES, TinyPyramid


def test_scores_and_the_cosine_classifier_need_torch_alone():
    code = (
        "import sys\n"
        "from equigrad.models import CosineClassifier, SoftmaxScores, bias_for_prior\n"
        "assert 'build_classifier' in dir(sys.modules['equigrad.models'])\n"
        "print('torchvision' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["retinanet", "fcos", "atss", "improved_atss", "paa", "yolox", "yolox_star"])
def test_one_stage_builders_are_functions_even_after_their_modules_are_imported(name):
    pyramid = TinyPyramid(strides=(8, 16, 32, 64, 128))
    model = getattr(models, name)(pyramid, NUM_CLASSES, equigrad.FocalLoss(), models.SigmoidScores())
    assert isinstance(model, models.DenseDetector)
    assert getattr(models.detection, name) is getattr(models, name)


def test_a_star_import_gives_every_name():
    names = {}
    exec("from equigrad.models import *", names)
    assert set(models.__all__) <= names.keys()
    assert {"build_classifier", "build_segmenter", "faster_rcnn", "mask_rcnn", "SmallFPN", "PSPHead"} <= names.keys()
