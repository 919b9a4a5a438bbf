from pathlib import Path

import pytest

from equigrad.recipes import image_classification, semantic_segmentation, two_stage
from equigrad.tasks.paper_tables.planning import Wanted, planned_run
from equigrad.tasks.paper_tables.requirements import PEAK_FLOPS, UTILISATION, needs_of


def runs(*recipes):
    return [planned_run(Wanted(recipe, None, False), 0) for recipe in recipes]


def test_files_and_weights_are_named_with_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("coco").mkdir()
    needs = needs_of(runs(two_stage.lvis_mask_rcnn_r50()))
    assert needs.files[Path("coco")] == "data.images"
    assert needs.missing == [Path("lvis/lvis_v1_train.json"), Path("lvis/lvis_v1_val.json")]
    assert needs.weights == ["torchvision"]


def test_files_of_weights_are_looked_for_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    needs = needs_of(runs(semantic_segmentation.ade20k_pspnet_r50()))
    assert needs.weights == ["resnet50_v1c.pth"]
    assert Path("resnet50_v1c.pth") in needs.missing
    Path("resnet50_v1c.pth").touch()
    assert Path("resnet50_v1c.pth") not in needs.missing


def test_gpu_hours_are_images_times_operations_over_what_a_gpu_sustains():
    needs = needs_of(runs(image_classification.imagenet_lt_resnet50("ce")))
    num_images = 90 * 115_846
    flops = 2 * 4.09e9  # ResNet-50 at 224 pixels has 4.09 billion multiply-adds
    expected = num_images * 3 * flops / (PEAK_FLOPS * UTILISATION) / 3600
    assert needs.gpu_hours == pytest.approx(expected, rel=0.01)
    assert needs.arithmetic[0].startswith(f"1 x {num_images:,} images x 3 x 8 GFLOP (224 x 224)")


def test_equal_trainings_are_one_line_of_the_arithmetic():
    recipes = [image_classification.imagenet_lt_resnet50(method) for method in ("ce", "bce")]
    needs = needs_of(runs(*recipes))
    assert len(needs.arithmetic) == 1
    assert needs.arithmetic[0].startswith("2 x ")
