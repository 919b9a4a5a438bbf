"""`equigrad recipes --check`, by its parts and as a command."""

import pytest

from equigrad.cli import main
from equigrad.commands.recipes import try_row
from equigrad.recipes.catalogue import all_recipes, rows_of_recipe
from equigrad.recipes.methods.classification import METHODS
from equigrad.tasks.smoke_test.workspace import Workspace

IMAGENET = "image_classification:imagenet_lt_resnet50"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("workspace"))


def test_a_recipe_of_a_table_stands_for_every_method():
    names = [name for name, function in all_recipes() if function().table and name.startswith("image_classification:")]
    assert len(names) == 4
    for name in names:
        assert [row for (row,) in rows_of_recipe(name)] == [f"method={method}" for method in METHODS]
    assert rows_of_recipe(IMAGENET, ["method=crt", "init=a"]) == [["method=crt", "init=a"]]
    assert rows_of_recipe("tiny:ce") == [[]]


def test_a_second_stage_starts_from_a_generated_first_stage(workspace):
    outcome = try_row(workspace, IMAGENET, ["method=lws"])
    assert outcome.error is None
    assert outcome.schedule == (
        "5 epochs, cosine per epoch to 0, no warm-up; batch 512; SGD lr 0.2, weight decay 0.0005; 1,135 steps"
    )
    assert not (workspace.folder / "run").exists()  # the folders of a whole table would fill a disk
    assert len(list(workspace.folder.glob("first_stage_*"))) == 1


def test_the_schedule_is_that_of_the_real_training_whatever_is_set(workspace):
    outcome = try_row(workspace, IMAGENET, ["method=softmax_eql_cosine", "training.schedule.epochs=200"])
    assert outcome.error is None
    assert outcome.schedule.startswith("200 epochs, cosine")
    assert outcome.schedule.endswith("45,400 steps")


def test_a_segmenter_is_tried_in_the_layout_of_ade20k_with_weights_like_the_real_ones(workspace):
    outcome = try_row(workspace, "semantic_segmentation:ade20k_lt_pspnet_r50", ["method=softmax_eql"])
    assert outcome.error is None
    assert outcome.schedule == (
        "40,000 steps, poly, power 0.9, to 0.01, no warm-up; batch 16; SGD lr 0.01, weight decay 0.0005; 40,000 steps"
    )
    missing = try_row(workspace, "semantic_segmentation:ade20k_lt_pspnet_r50", ["backbone.weights=mine.pth"])
    assert missing.error == "FileNotFoundError: mine.pth: no such weight file"


def test_a_detector_is_tried_with_the_categories_of_its_benchmark_and_weights_like_the_real_ones(workspace):
    outcome = try_row(workspace, "one_stage:coco", ["method=fl"])
    assert outcome.error is None
    assert outcome.schedule == (
        "24 epochs, x0.1 at epoch 16, 22, linear warm-up from 0.001 over 1 epochs; batch 16; "
        "SGD lr 0.02, weight decay 0.0001"
    )
    assert (workspace.folder / "coco_objects" / "train.json").exists()


def test_a_detector_that_reads_its_own_data_is_tried_on_a_few_categories(workspace):
    assert try_row(workspace, "small_detection_data:small", []).error is None
    assert try_row(workspace, "small_detection_data:small", ["data.test=none"]).error is None
    missing = try_row(workspace, "small_detection_data:small", ["data.benchmark=voc"])
    assert missing.error == "UsageError: --set data.benchmark=voc: expected none or one of lvis, coco"


def test_second_stages_of_detectors_share_a_first_stage_where_the_detector_is_the_same(tmp_path):
    workspace = Workspace(tmp_path)
    for method, num_first_stages in (("crt", 1), ("crt", 1), ("bags", 2)):
        assert try_row(workspace, "small_detection_data:second_stage", [f"method={method}"]).error is None
        assert len(list(tmp_path.glob("first_stage_*"))) == num_first_stages


def test_a_recipe_that_cannot_train_is_named_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_recipes.py").write_text(
        "from dataclasses import replace\n"
        "from torch import nn\n"
        "from equigrad.recipes import own_data\n"
        "class Broken(nn.Flatten):\n"
        "    num_features = 7\n"
        "    def build(self):\n"
        "        return self\n"
        "def good():\n"
        "    return own_data.classification(frozen='none')\n"
        "def broken():\n"
        "    return replace(good(), backbone=Broken())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["recipes", "--check", "broken_recipes:broken", "broken_recipes:good"]) == 1
    shown = capsys.readouterr()
    first, second = shown.out.splitlines()
    assert first.startswith("[1/2] failed broken_recipes:broken: RuntimeError: ")
    assert second.startswith(
        "[2/2] ok     broken_recipes:good: 20 epochs, but at least 300 steps, cosine per step to 0, linear warm-up"
    )
    assert shown.err == "equigrad: 1 of 2 recipes failed\n"


def test_ctrl_c_ends_all_tries(tmp_path, monkeypatch, capsys):
    (tmp_path / "stopping_recipes.py").write_text(
        "import signal\n"
        "from dataclasses import replace\n"
        "from equigrad.recipes import tiny\n"
        "from equigrad.tasks.classification.data import GlyphImages\n"
        "class Images:\n"
        "    def load(self):\n"
        "        train, test = GlyphImages(num_classes=3, max_count=6, test_count=1).load()\n"
        "        plain = train.transform\n"
        "        train.transform = lambda image: (signal.raise_signal(signal.SIGINT), plain(image))[1]\n"
        "        return train, test\n"
        "def stopping():\n"
        "    return replace(tiny.ce(), data=Images())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["recipes", "--check", "stopping_recipes:stopping", "tiny:ce"]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "equigrad: interrupted\n"


@pytest.mark.slow
def test_every_row_of_a_table_trains(tmp_path, monkeypatch, capsys):
    # A small backbone, because what a method adds does not depend on it.
    (tmp_path / "small_table.py").write_text(
        "from dataclasses import replace\n"
        "from equigrad.recipes.image_classification import imagenet_lt_resnet50\n"
        "from equigrad.recipes.methods.classification import MethodName\n"
        "from equigrad.tasks.backbones import SmallConv\n"
        "def imagenet_lt(method: MethodName = 'ce'):\n"
        "    return replace(imagenet_lt_resnet50(method), backbone=SmallConv())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["recipes", "--check", "small_table:imagenet_lt"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"all {len(METHODS)} recipes build and train"


@pytest.mark.slow
def test_the_largest_network_of_the_tables_trains_in_both_stages(capsys):
    assert main(["recipes", "--check", "image_classification:places_lt_resnet152", "--set", "method=crt"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert "10 epochs, cosine per epoch to 0, no warm-up; batch 256; SGD lr 0.1" in first
    assert last == "all 1 recipes build and train"
