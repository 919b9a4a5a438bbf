import json

import numpy as np
import pytest
from PIL import Image

from equigrad.analysis.history import RunHistory
from equigrad.analysis.observation import Observed, group_means, plot_observation


@pytest.fixture
def run(tmp_path):
    """A run of three categories with 200, 30 and 2 images."""
    (tmp_path / "recipe.json").write_text(json.dumps({"settings": {}, "starts": []}))
    (tmp_path / "metrics.jsonl").write_text("")
    entries = [{"name": name, "count": count, "accuracy": 0.5} for name, count in zip("abc", (200, 30, 2), strict=True)]
    (tmp_path / "evaluation.json").write_text(json.dumps({"result": {"Overall": 0.5}, "categories": entries}))
    sums = {"positive": [[8.0, 4.0, 1.0]], "negative": [[8.0, 8.0, 10.0]]}
    columns = {f"loss.statistics.{name}": np.array(values) for name, values in sums.items()}
    seen = np.array([[100.0, 50.0, 10.0]])
    columns |= {"loss.seen": seen, "loss.compared": seen, "loss.won": seen}
    np.savez(tmp_path / "statistics.npz", steps=np.array([10]), **columns)
    return RunHistory.load(tmp_path, "long-tailed")


def test_means_are_those_of_the_frequency_groups(run):
    assert group_means(run) == {
        "many": (8.0, 8.0, 100.0, 60.0),
        "medium": (4.0, 8.0, 50.0, 110.0),
        "few": (1.0, 10.0, 10.0, 150.0),
    }
    assert str(group_means(run)["few"]) == "1 / 10 of 10 / 150 samples"


def test_the_figure_has_a_column_for_each_task(run, tmp_path):
    plot_observation([Observed("one", run, run)], tmp_path / "one.png")
    plot_observation([Observed("one", run, run), Observed("two", run, run)], tmp_path / "two.png")
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "two.png") as two:
        assert two.width == 2 * one.width


def test_a_run_without_statistics_is_refused(run, tmp_path):
    (run.folder / "statistics.npz").unlink()
    without = RunHistory.load(run.folder)
    with pytest.raises(ValueError, match="keeps no gradient statistics"):
        plot_observation([Observed("one", without, without)], tmp_path / "one.png")
