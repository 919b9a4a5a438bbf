"""Where a training starts: files and runs that `init` may name. The runs are written here, not trained."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torchvision.models import detection as theirs, resnet50

from equigrad.analysis.evaluation_file import CategoryResult, Evaluation
from equigrad.engine import EngineError
from equigrad.engine.checkpoint import save_checkpoint
from equigrad.models.scores import bias_for_prior
from equigrad.settings import override, to_json
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.classification import run as classification
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection import run as detection
from equigrad.tasks.detection.detectors import RCNN
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.segmentation import run as segmentation
from equigrad.tasks.start import shown_weights
from running import load

THERE, HERE = ("cat", "dog", "bird"), ("dog", "fox", "cat", "owl")
NAMES = ("classification", "semantic_segmentation", "detection", "instance_segmentation")
CLASSIFIERS = {
    "classification": "classifier.weight",
    "semantic_segmentation": "head.classifier.conv.weight",
    "instance_segmentation": "roi_heads.box_predictor.cls_score.weight",
}


def own(name, *settings):
    recipe = load(f"own_data:{name}", list(settings))
    return replace(recipe, backbone=without_weights(recipe.backbone))


def categories(names):
    counts = np.arange(1, len(names) + 1)
    return TrainedCategories(names, ("rare",) * len(names), counts, counts)


def build(recipe, names):
    """The model of a recipe, and the lines that a user reads."""
    with shown_weights(shown=True):
        if isinstance(recipe, DetectionRecipe):
            return detection.build_model(recipe, categories(names))
        task = classification if isinstance(recipe, ClassificationRecipe) else segmentation
        return task.build_model(recipe, np.arange(1, len(names) + 1), names)


def write_run(folder, recipe, names=THERE):
    """A run as a training leaves it, with random weights; the model that it holds."""
    torch.manual_seed(1)
    model = build(recipe, names)
    folder.mkdir()
    content = {"format": 2, "starts": [], "settings": to_json(recipe)}
    (folder / "recipe.json").write_text(json.dumps(content))
    save_checkpoint(folder, {"step": 5, "model": model.state_dict(), "ema": None}, 5, keep=1)
    if isinstance(recipe, DetectionRecipe):
        categories(names).save(folder)
    else:
        rows = tuple(CategoryResult(name, 3, {"accuracy": 0.5}, "few") for name in names)
        Evaluation({"accuracy": 0.5}, rows).save(folder)
    return model


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_each_task_gives_its_weights_to_one_with_other_categories(name, tmp_path, capsys):
    there = write_run(tmp_path / "run", own(name)).state_dict()
    torch.manual_seed(2)
    here = build(own(name, f"init={tmp_path / 'run'}"), HERE).state_dict()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{tmp_path / 'run'}: ")
    assert "weights taken, 2 of 4 categories by name; new: " in line
    assert line.endswith(" (2 of 4 categories), gradient statistics")
    if name in CLASSIFIERS:
        assert_close(here[CLASSIFIERS[name]][[0, 2]], there[CLASSIFIERS[name]][[1, 0]])
    same = [key for key in there if key in here and there[key].shape == here[key].shape and "statistics" not in key]
    assert len(same) > 50
    for key in same:
        assert torch.equal(here[key], there[key]), key


def test_a_detector_starts_from_the_network_of_a_classifier(tmp_path, capsys):
    there = write_run(tmp_path / "run", own("classification")).state_dict()
    here = build(own("detection", "method=efl", f"init={tmp_path / 'run'}"), HERE).state_dict()
    assert_close(here["pyramid.blocks.3.expand.conv.weight"], there["backbone.blocks.3.expand.conv.weight"])
    assert "; new: features.fpn, features.fpn.extra_blocks, head.class_tower" in capsys.readouterr().out


def test_a_run_that_was_not_evaluated_gives_all_but_its_classifier(tmp_path, capsys):
    write_run(tmp_path / "run", own("classification"), HERE)
    (tmp_path / "run" / "evaluation.json").unlink()
    build(own("classification", f"init={tmp_path / 'run'}"), HERE)
    assert "0 of 4 categories by name; new: classifier, gradient statistics" in capsys.readouterr().out


def test_a_classifier_that_another_method_trained_starts_anew(tmp_path, capsys):
    write_run(tmp_path / "run", own("instance_segmentation", "method=ce"), HERE)
    model = build(own("instance_segmentation", f"init={tmp_path / 'run'}", "method=sigmoid_eql"), HERE)
    assert "; new: roi_heads.box_predictor.cls_score, gradient statistics" in capsys.readouterr().out
    bias = model.roi_heads.box_predictor.cls_score.bias
    assert_close(bias, torch.full_like(bias, bias_for_prior(0.001)))


TORCHVISION = {
    "retinanet_resnet50_fpn": ["detector=RetinaNet", "detector.torchvision_anchors=true"],
    "retinanet_resnet50_fpn_v2": [
        *("detector=RetinaNet", "detector.torchvision_anchors=true"),
        *("detector.group_norm=true", "backbone.extra=c5"),
    ],
    "fcos_resnet50_fpn": ["detector=Fcos", "detector.torchvision_points=true"],
    "fasterrcnn_resnet50_fpn": ["backbone.extra=pool"],
    "maskrcnn_resnet50_fpn_v2": ["backbone.extra=pool", "backbone.fpn_batch_norm=true", "detector.version=2"],
}


def of_torchvision(name, num_classes):
    """Their detector, and the recipe of ours that fits."""
    torch.manual_seed(0)
    their_model = getattr(theirs, name)(weights=None, weights_backbone=None, num_classes=num_classes + 1)
    base = "detection" if "rcnn" not in name else "instance_segmentation"
    recipe = load(f"own_data:{base}", [] if "rcnn" in name else ["method=efl"])
    if "rcnn" in name:
        recipe = replace(recipe, detector=RCNN(with_masks="mask" in name))
    settings = ["backbone=ResNetPyramid", "backbone.weights=none", *TORCHVISION[name]]
    return their_model, override(recipe, settings)


@pytest.mark.parametrize("name", TORCHVISION)
def test_a_detector_of_torchvision_gives_all_but_its_categories(name, tmp_path, capsys):
    their_model, recipe = of_torchvision(name, 6)
    torch.save(their_model.state_dict(), tmp_path / f"{name}.pth")
    model = build(replace(recipe, init=tmp_path / f"{name}.pth"), HERE)
    (line,) = capsys.readouterr().out.splitlines()
    taken, _, new = line.partition("; new: ")
    assert taken.startswith(f"{tmp_path / name}.pth: torchvision's ")
    assert " of 6 categories, " in taken
    per_category = {
        *("head.logits", "roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"),
        *("roi_heads.mask_branch.predictor.mask_fcn_logits", "gradient statistics"),
    }
    assert set(new.split(", ")) <= per_category
    state = model.state_dict()
    prefix = "backbone" if "rcnn" in name else "pyramid"
    for part in ("body.layer4.2.conv3.weight", "fpn.inner_blocks.0.0.weight"):
        assert torch.equal(state[f"{prefix}.{part}"], their_model.state_dict()[f"backbone.{part}"])
    if "rcnn" not in name:
        assert_close(
            model.head.logits.bias, torch.full_like(model.head.logits.bias, bias_for_prior(recipe.detector.prior))
        )


def test_a_detector_of_torchvision_with_as_many_categories_keeps_them(tmp_path, capsys):
    their_model, recipe = of_torchvision("retinanet_resnet50_fpn", 4)
    torch.save(their_model.state_dict(), tmp_path / "retinanet.pth")
    model = build(replace(recipe, init=tmp_path / "retinanet.pth"), HERE)
    logits = their_model.head.classification_head.cls_logits.weight.view(9, 5, -1)[:, 1:]
    assert_close(model.head.logits.weight.view(9, 4, -1), logits)
    assert capsys.readouterr().out.endswith("301 of 301 weights taken; new: gradient statistics\n")


def test_heads_of_version_2_are_told_the_settings_they_fit(tmp_path, capsys):
    their_model, recipe = of_torchvision("maskrcnn_resnet50_fpn_v2", 6)
    torch.save(their_model.state_dict(), tmp_path / "v2.pth")
    recipe = override(recipe, ["detector.version=1", "backbone.fpn_batch_norm=false", f"init={tmp_path / 'v2.pth'}"])
    build(recipe, HERE)
    line, hint = capsys.readouterr().out.splitlines()
    assert "new: features.fpn, rpn.head.conv, roi_heads.box_head" in line
    assert hint == "the detector is torchvision's with --set detector.version=2 --set backbone.fpn_batch_norm=true"


def test_weights_of_a_backbone_alone_are_those_of_the_backbone(tmp_path, capsys):
    network = resnet50()
    torch.save({"state_dict": network.state_dict()}, tmp_path / "resnet50.pth")
    recipe = override(own("detection", "method=efl", f"init={tmp_path / 'resnet50.pth'}"), ["backbone=ResNetPyramid"])
    model = build(recipe, HERE)
    assert torch.equal(model.pyramid.body.conv1.weight, network.conv1.weight)
    assert capsys.readouterr().out.endswith("resnet50.pth: 265 weights taken, 2 left: fc.weight, fc.bias\n")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """A folder with what is no start."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "empty").mkdir()
    (folder / "text.pth").write_text("weights")
    torch.save({"step": 3}, folder / "numbers.pth")
    torch.save(theirs.fcos_resnet50_fpn(weights=None, weights_backbone=None).state_dict(), folder / "fcos.pth")
    torch.save(resnet50().state_dict(), folder / "resnet50.pth")
    write_run(folder / "run", own("detection"))
    write_run(folder / "small", load("tiny:ce"))
    write_run(folder / "odd", own("detection"))
    save_checkpoint(folder / "odd", {"step": 6, "model": {"pyramid.stem": "text"}, "ema": None}, 6, keep=1)
    write_run(folder / "stopped", own("detection"))
    for file in (folder / "stopped" / "checkpoints").iterdir():
        file.unlink()
    return folder


@pytest.mark.parametrize(
    ("init", "settings", "line"),
    [
        ("absent.pth", [], "absent.pth: no such weight file or run folder"),
        ("empty", [], "empty: not the folder of a run, it has no recipe.json"),
        ("text.pth", [], "text.pth: not a file of PyTorch weights"),
        ("numbers.pth", [], "numbers.pth: expected a dictionary of tensors"),
        ("fcos.pth", [], "torchvision's FCOS does not fit Lite0Pyramid (it has no weight stem.conv.weight); it fits"),
        ("resnet50.pth", [], "resnet50.pth: 245 weights of the model are missing"),
        ("resnet50.pth", ["backbone=CspDarknet"], "CspDarknet reads no weight file; it can start from the folder"),
        ("small", [], "its SmallConv does not fit the Lite0Pyramid of this recipe: it has no weight"),
        ("odd", [], "odd: its checkpoint has no weights of a model"),
        ("stopped", [], "stopped has no checkpoint to load"),
        ("run/checkpoints/step_00000005.pt", [], "a checkpoint of a run; give the folder of the run"),
    ],
)
def test_what_a_training_cannot_start_from_is_refused_in_one_line(init, settings, line, wrong):
    recipe = override(own("detection"), [*settings, f"init={wrong / init}"])
    with pytest.raises((EngineError, ValueError, OSError)) as raised:
        build(recipe, HERE)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(Path(init).name) in str(raised.value)
