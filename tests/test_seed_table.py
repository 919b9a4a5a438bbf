import json

import numpy as np
from examples.seed_table import main

from equigrad.analysis.evaluation_file import CategoryResult, Evaluation


def write_run(folder, rare_ap, ratio=None):
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text(json.dumps({"recipe": "x:y", "set": []}))
    (folder / "metrics.jsonl").write_text("")
    categories = (
        CategoryResult("dog", 90, {"AP": 0.5}, "frequent"),
        CategoryResult("eel", 3, {"AP": rare_ap}, "rare"),
    )
    Evaluation({"AP": 0.25, "APr": rare_ap}, categories).save(folder)
    if ratio is not None:
        columns = {"loss.positive": np.array([[0.0, 0.0], ratio]), "loss.negative": np.array([[0.0, 0.0], [1.0, 1.0]])}
        np.savez(folder / "statistics.npz", steps=np.array([0, 10]), **columns)


def test_seeds_of_a_method_become_one_row_with_mean_and_spread(tmp_path, capsys):
    write_run(tmp_path / "fl_0", 0.10, ratio=[1.0, 0.2])
    write_run(tmp_path / "fl_1", 0.14, ratio=[0.8, 0.4])
    write_run(tmp_path / "efl_0", 0.20)
    runs = [str(tmp_path / name) for name in ("fl_0", "fl_1", "efl_0")]
    assert main([*runs, "--metrics", "AP", "APr", "--figure", str(tmp_path / "ratio.png")]) == 0
    assert (tmp_path / "ratio.png").stat().st_size > 1000
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["method", "AP", "APr", "G frequent", "G rare"]
    assert rows[2] == ["fl", "25.0 ± 0.0", "12.0 ± 2.0", "0.90 ± 0.10", "0.30 ± 0.10"]
    assert rows[3] == ["efl", "25.0", "20.0", "–", "–"]


def test_a_metric_the_run_lacks_is_named(tmp_path, capsys):
    write_run(tmp_path / "fl_0", 0.1)
    assert main([str(tmp_path / "fl_0"), "--metrics", "mIoU"]) == 1
    assert "no metric mIoU; the run has AP, APr" in capsys.readouterr().err


def write_categories(folder, values):
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text(json.dumps({"recipe": "x:y", "set": []}))
    (folder / "metrics.jsonl").write_text("")
    categories = tuple(CategoryResult(f"{index}", 3, {"AP": value}, "rare", 5) for index, value in enumerate(values))
    mean = float(np.mean(values))
    Evaluation({"AP": mean, "APr": mean}, categories).save(folder)


def test_differences_are_paired_over_categories_and_seeds(tmp_path, capsys):
    values = np.linspace(0.1, 0.5, 6)
    for seed in range(3):
        write_categories(tmp_path / f"fl_{seed}", values + 0.1 * seed)
        write_categories(tmp_path / f"efl_{seed}", values + 0.1 * seed + 0.05)  # seeds scatter, differences do not
    runs = [str(folder) for folder in sorted(tmp_path.iterdir())]
    assert main([*runs, "--metrics", "AP", "--against", "fl"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert row == ["efl", "–", "+5.0 ± 0.0", "–", "–", "+5.0 ± 0.0"]


def test_differences_need_as_many_seeds_of_each_method(tmp_path, capsys):
    write_categories(tmp_path / "fl_0", [0.1, 0.2])
    write_categories(tmp_path / "efl_0", [0.1, 0.2])
    write_categories(tmp_path / "efl_1", [0.1, 0.2])
    runs = [str(folder) for folder in sorted(tmp_path.iterdir())]
    assert main([*runs, "--metrics", "AP", "--against", "fl"]) == 1
    assert "as many seeds each, got fl 1, efl 2" in capsys.readouterr().err
