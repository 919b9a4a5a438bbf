"""One short run of each task through the command line: `make quick` shows within seconds that training still works."""

import json
import math

import numpy as np
import pytest

from equigrad.cli import main

_SHORT = ("training.schedule.epochs=2", "training.schedule.warmup.length=1", "training.batch_size=8")
_LOGGED = ("training.log_every=1", "training.num_workers=0")
_GLYPHS = ("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2")
_OBJECTS = ("data.num_classes=4", "data.max_count=12", "data.test_count=2", "data.image_size=64")
_SCENES = ("data.num_glyphs=3", "data.max_count=12", "data.test_count=2", "data.image_size=48")

RUNS = {
    "tiny:softmax_eql": (_GLYPHS, "Overall"),
    "glyph_objects:one_stage": (_OBJECTS, "AP"),
    "glyph_objects:mask_rcnn": (_OBJECTS, "AP"),
    "tiny:segmentation": (_SCENES, "mIoU"),
}


@pytest.mark.parametrize("recipe", RUNS)
def test_a_short_run_trains_gathers_statistics_and_is_evaluated(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # detectors draw their data into the working folder
    data, headline = RUNS[recipe]
    words = [word for setting in (*data, *_SHORT, *_LOGGED) for word in ("--set", setting)]
    assert main(["train", recipe, "--run", "run", *words]) == 0, capsys.readouterr().err
    assert headline in capsys.readouterr().out
    run = tmp_path / "run"

    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(logged) > 1
    assert all(math.isfinite(entry["loss"]) and entry["loss"] > 0 for entry in logged)

    with np.load(run / "statistics.npz") as statistics:
        sums = [statistics[name] for name in statistics.files if name.endswith((".positive", ".negative"))]
    assert len(sums) >= 2
    assert all((over_time[-1] > over_time[0]).any() for over_time in sums)

    evaluation = json.loads((run / "evaluation.json").read_text())
    assert 0 <= evaluation["result"][headline] <= 1
    assert len(evaluation["categories"]) >= 4
    assert evaluation["categories"][0]["name"] in (run / "report.html").read_text()
