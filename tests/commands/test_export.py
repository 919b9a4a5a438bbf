"""Every task in every format, exported from small runs and run by its own runtime."""

import io
import json
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

from commands.running_commands import equigrad
from equigrad.models.deployment.classifier import DeployedClassifier
from equigrad.models.deployment.segmenter import DeployedSegmenter
from equigrad.tasks.export.formats import load_torch_export, load_torchscript

FORMATS = {"onnx": "model.onnx", "torch_export": "model.pt2", "torchscript": "model.torchscript.pt"}
_STEPS = ("training.schedule.epochs=none", "training.schedule.steps=2", "training.schedule.warmup.length=1")
_SHORT = (*_STEPS, "training.batch_size=4", "training.num_workers=0", "data.max_count=12", "data.test_count=2")
_OBJECTS = (*_SHORT, "data.num_classes=4", "data.image_size=64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the runs are: detectors find the data that they have drawn."""
    return tmp_path_factory.mktemp("exports")


def trained(folder, name, recipe, settings):
    done = equigrad("train", recipe, "--run", name, settings=settings, folder=folder)
    assert done.code == 0, done.err
    return folder / name


@pytest.fixture(scope="module")
def segmenter(folder):
    return trained(folder, "segmenter", "tiny:segmentation", [*_SHORT, "data.num_glyphs=3", "data.image_size=48"])


@pytest.fixture(scope="module")
def detector(folder):
    # Few levels: the time of an export grows with them.
    return trained(folder, "detector", "glyph_objects:one_stage", [*_OBJECTS, "backbone.strides=16,32"])


@pytest.fixture(scope="module")
def rcnn(folder):
    return trained(folder, "rcnn", "glyph_objects:mask_rcnn", [*_OBJECTS, "backbone.strides=16,32"])


@pytest.fixture(scope="module")
def classifier_onnx(run):
    """The ONNX file of a classifier."""
    file = run.parent / "classifier.onnx"
    done = equigrad("export", run, "--format", "onnx", "--output", file)
    assert done.code == 0, done.err
    return file


def test_a_file_that_is_there_is_replaced_only_when_asked(run, classifier_onnx):
    words = ("export", run, "--format", "onnx", "--output", classifier_onnx)
    before = classifier_onnx.stat().st_mtime_ns
    refused = equigrad(*words)
    assert refused.code == 1
    assert f"{classifier_onnx}: exists already; --force replaces it, --output FILE writes elsewhere" in refused.err
    assert classifier_onnx.stat().st_mtime_ns == before
    assert equigrad(*words, "--force").code == 0
    assert classifier_onnx.stat().st_mtime_ns != before


def exported(run, file_format, *words):
    done = equigrad("export", run.name, "--format", file_format, "--force", *words, folder=run.parent)
    assert done.code == 0, done.err
    assert "images of the test set" in done.out
    assert "largest differences: score " in done.out
    assert not list(run.glob(".*.part"))
    return run / FORMATS[file_format]


@pytest.mark.parametrize("file_format", ["torch_export", "torchscript"])
def test_a_classifier_is_exported(run, file_format):
    assert exported(run, file_format).stat().st_size > 0


@pytest.mark.parametrize("task", ["segmenter", "detector", "rcnn"])
def test_a_run_of_every_task_is_traced(task, request):
    assert exported(request.getfixturevalue(task), "torchscript").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("task", ["segmenter", "detector", "rcnn"])
def test_a_run_of_every_task_becomes_onnx(task, request):
    assert exported(request.getfixturevalue(task), "onnx").stat().st_size > 0


@pytest.mark.slow
def test_a_detector_is_exported_by_torch(detector):
    assert exported(detector, "torch_export").stat().st_size > 0


def test_a_file_tells_a_deployer_all_and_has_neither_loss_nor_statistics(classifier_onnx):
    model = onnx.load(classifier_onnx)
    about = json.loads({entry.key: entry.value for entry in model.metadata_props}["equigrad"])
    assert about["task"] == "classification"
    assert len(about["categories"]) == 5
    assert about["preprocessing"] == {"resize": [32, 32], "interpolation": "bilinear"}
    assert not about["multi_label"]
    assert about["normalization"]["inside"]
    names = [tensor.name for tensor in model.graph.initializer]
    assert names
    assert not [name for name in names if "loss" in name or "statistics" in name]


def test_onnx_runtime_takes_any_batch_of_bytes(classifier_onnx):
    session = onnxruntime.InferenceSession(classifier_onnx)
    for count in (1, 5):
        images = np.random.default_rng(count).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        (scores,) = session.run(["scores"], {"images": images})
        assert scores.shape == (count, 5)
        np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)


def test_a_file_of_pytorch_carries_the_same_metadata(run):
    file = exported(run, "torch_export")
    extra = {"equigrad.json": ""}
    program = torch.export.load(io.BytesIO(file.read_bytes()), extra_files=extra)
    assert len(json.loads(extra["equigrad.json"])["categories"]) == 5
    assert not [name for name in program.state_dict if "loss" in name or "statistics" in name]


def test_images_of_ones_own_are_compared_on(run, tmp_path):
    Image.new("RGB", (40, 30), "red").save(tmp_path / "photo.png")
    words = ["export", run, "--format", "torchscript", "--output", tmp_path / "own.pt", "--images", tmp_path]
    done = equigrad(*words)
    assert done.code == 0, done.err
    assert f"{tmp_path / 'own.pt'}: " in done.out
    assert f"1 image of {tmp_path}" in done.out
    assert done.out.startswith("writing ")  # before it takes its time


def test_without_test_images_a_run_folder_is_enough(detector, tmp_path):
    shutil.copytree(detector, tmp_path / "moved")
    done = equigrad("export", "moved", "--format", "torchscript", "--force", folder=tmp_path)
    assert done.code == 0, done.err
    assert "of noise, because the test set is not there" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["moved"], "the scenes of the run were drawn"


def test_a_file_that_differs_from_the_run_is_not_written(run, tmp_path, monkeypatch):
    plain = DeployedClassifier.forward
    monkeypatch.setattr(DeployedClassifier, "forward", lambda model, images: plain(model, images) * 0.99)
    file = tmp_path / "model.pt"
    file.write_text("earlier")
    done = equigrad("export", run, "--format", "torchscript", "--output", file, "--force")
    assert done.code == 1
    assert done.err.startswith(f"equigrad: {file}: not written, it differs from the run: score ")
    assert done.err.count("\n") == 1
    assert file.read_text() == "earlier"


WRONG = {
    "no folder for the file": (["--output", "missing/model.pt"], "missing: no such folder for the exported file", 1),
    "no images": (["--images", "empty"], "empty: expected images in the folder, found none", 1),
    "a size for a classifier": (["--image-size", "32", "32"], "--image-size is for segmenters", 1),
    "a size of nothing": (["--image-size", "0", "32"], "--image-size must be two numbers above 0, got 0 32", 2),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_use_is_one_line(case, run, tmp_path):
    words, expected, code = WRONG[case]
    (tmp_path / "empty").mkdir()
    done = equigrad("export", run, "--format", "torchscript", "--force", *words, folder=tmp_path)
    assert done.code == code
    assert expected in done.err
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_an_unknown_format_is_wrong_usage(run):
    done = equigrad("export", run, "--format", "onxx")
    assert done.code == 2
    assert "choose from" in done.err


def test_sliding_windows_want_a_fixed_size(segmenter):
    windows = ["--format", "torchscript", "--force", "--set", "window=32"]
    refused = equigrad("export", segmenter.name, *windows, folder=segmenter.parent)
    assert refused.code == 1
    assert "add --image-size HEIGHT WIDTH" in refused.err
    done = equigrad("export", segmenter.name, *windows, "--image-size", "40", "56", folder=segmenter.parent)
    assert done.code == 0, done.err


@pytest.mark.parametrize("file_format", ["torchscript", "torch_export"])
def test_images_of_any_size_are_scaled_inside_the_file(segmenter, file_format):
    file = exported(segmenter, file_format, "--set", "data.base=96,48")
    load = {"torchscript": load_torchscript, "torch_export": load_torch_export}[file_format]
    run = load(file.read_bytes())
    for size in ((30, 44), (61, 37), (7, 90)):  # not among those that the file was compared on
        labels, scores = run((torch.randint(0, 256, (1, 3, *size), dtype=torch.uint8),))
        assert labels.shape == scores.shape == (1, *size)


def test_what_torch_cannot_export_is_one_line(run, monkeypatch):
    def branching(model, images):
        scores = model.scores(model.classifier(model.backbone(images)).float())
        return scores if scores.sum() > 0 else -scores

    monkeypatch.setattr(DeployedClassifier, "forward", branching)
    done = equigrad("export", run, "--format", "torch_export", "--force")
    assert done.code == 1
    assert done.err.startswith("equigrad: not written: torch cannot export this model as torch_export: ")
    assert done.err.endswith("; take another --format\n")
    assert done.err.count("\n") == 1
    assert done.out.count("\n") == 1


def test_a_size_that_torch_takes_for_a_constant_is_told(segmenter, monkeypatch):
    plain = DeployedSegmenter.forward
    first_rows = lambda model, images: plain(model, images[:, :, : int(images.shape[2])])  # noqa: E731
    monkeypatch.setattr(DeployedSegmenter, "forward", first_rows)
    done = equigrad("export", segmenter.name, "--format", "torch_export", "--force", folder=segmenter.parent)
    assert done.code == 1
    assert "torch takes the height of images for a constant; add --image-size HEIGHT WIDTH" in done.err


def test_onnx_without_its_packages_names_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    done = equigrad("export", run, "--format", "onnx", "--force")
    assert done.code == 1
    assert done.err.endswith("install what --format onnx needs: pip install 'equigrad[export]'\n")
    assert done.err.count("\n") == 1
