"""A user's files, with one command."""

import json

import pytest

from equigrad.cli import main
from equigrad.tasks.smoke_test.generated_objects import write_own

SMALL = ["preprocessing.short=64", "preprocessing.test_short=64", "preprocessing.long=96", "backbone.weights=none"]
FAST = [*SMALL, "training.batch_size=4", "training.schedule.epochs=0.25", "training.num_workers=0"]


def train(recipe, folder, *settings):
    words = [word for setting in settings for word in ("--set", setting)]
    return main(["train", f"own_data:{recipe}", "--run", str(folder / "run"), *words])


def test_masks_are_learnt_from_one_file_and_a_folder(tmp_path, capsys):
    write_own(tmp_path / "own")
    files = [f"data.train={tmp_path}/own/train.json", "data.test=none", f"data.images={tmp_path}/own/images"]
    assert train("instance_segmentation", tmp_path, *files, *FAST) == 0
    assert {"AP", "APr", "APb"} <= set(capsys.readouterr().out.splitlines()[-2].split())
    result = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert len(result["categories"]) == 5
    assert main(["evaluate", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("setting", "message", "code"),
    [
        ("data.train=nowhere.json", "nowhere.json: no such file or folder; name yours with --set data.train=…", 1),
        ("data.images=nowhere", "nowhere: no such file or folder; name yours with --set data.images=…", 1),
        ("data.pictures=here", "no field 'pictures' in data, which may have train, test, images", 2),
        ("method=efl", "expected one of ce, ", 2),
    ],
)
def test_a_mistake_with_masks_is_named_in_one_line(tmp_path, capsys, setting, message, code):
    write_own(tmp_path / "own")
    files = [f"data.train={tmp_path}/own/train.json", "data.test=none", f"data.images={tmp_path}/own/images"]
    assert train("instance_segmentation", tmp_path, *files, setting) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_annotations_without_masks_are_refused(tmp_path, capsys):
    write_own(tmp_path / "own")
    content = json.loads((tmp_path / "own" / "train.json").read_text())
    for annotation in content["annotations"]:
        del annotation["segmentation"]
    (tmp_path / "boxes.json").write_text(json.dumps(content))
    files = [f"data.train={tmp_path}/boxes.json", "data.test=none", f"data.images={tmp_path}/own/images"]
    assert train("instance_segmentation", tmp_path, *files) == 1
    assert "boxes.json: " in capsys.readouterr().err
