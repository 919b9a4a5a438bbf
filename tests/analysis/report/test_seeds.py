import re

from analysis.run_folders import evaluation, recipe, write_run
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report.seeds import seed_table


def run(folder, loss, seed, value):
    content = recipe(loss) | {"seed": seed, "set": [f"training.seed={seed}"]}
    content["settings"] = content["settings"] | {"training": {"seed": seed}}
    return RunHistory.load(write_run(folder, recipe=content, evaluation=evaluation([0.5] * 6, {"AP": value})))


def words(*runs):
    return re.sub(r"<[^>]+>", " ", seed_table(compare(runs))).split()


def test_runs_that_differ_in_their_seed_alone_are_one_method(tmp_path):
    found = " ".join(
        words(
            *(run(tmp_path / f"bce{seed}", "BCE", seed, value) for seed, value in enumerate((0.30, 0.32))),
            *(run(tmp_path / f"eql{seed}", "EQL", seed, value) for seed, value in enumerate((0.40, 0.43, 0.46))),
        )
    )
    assert "bce0 and 1 more 31.0 ± 1.4" in found
    assert "eql0 and 2 more 43.0 ± 3.0 +12.0" in found


def test_runs_of_one_seed_have_no_spread(tmp_path):
    assert words(run(tmp_path / "a", "BCE", 0, 0.3), run(tmp_path / "b", "EQL", 0, 0.4)) == []


def test_the_same_seed_twice_has_no_spread(tmp_path):
    assert words(run(tmp_path / "a", "BCE", 0, 0.3), run(tmp_path / "b", "BCE", 0, 0.4)) == []
