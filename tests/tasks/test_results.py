import math

import numpy as np
import pytest
import torch

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.settings import override
from equigrad.tasks.results import EvaluationResult, remove_results
from small_detection_data import data_settings, known, write_small_data


@pytest.fixture
def evaluator(tmp_path):
    sets = override(known(), data_settings(write_small_data(tmp_path / "data"))).data.load(with_masks=False)
    evaluator = sets.evaluator(tmp_path / "run" / "predictions", ("bbox",))
    _, target = sets.test[0]
    found = {"boxes": target["boxes"].as_subclass(torch.Tensor), "labels": target["labels"], "scores": torch.ones(2)}
    evaluator.add([found], [target])
    return evaluator


@pytest.fixture
def run_folder(tmp_path):
    """A folder with what a page needs of a run."""
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    (folder / "recipe.json").write_text("{}")
    (folder / "metrics.jsonl").write_text("")
    return folder


def test_a_result_keeps_metrics_rows_arrays_and_the_page_of_the_run(evaluator, run_folder):
    metrics = evaluator.result()
    result = EvaluationResult(metrics, evaluator.per_category(), {"paths": np.array(["a", "b"])})
    assert math.isnan(result.metrics["APl"])
    result.save(run_folder)
    kept = Evaluation.load(run_folder)
    assert kept.result["APl"] is None
    assert kept.result["APc"] == metrics["APc"] > 0
    assert [category.name for category in kept.categories] == ["cup", "jug", "urn", "vat"]
    with np.load(run_folder / "predictions" / "test.npz", allow_pickle=False) as stored:
        assert stored["paths"].tolist() == ["a", "b"]
    assert "urn" in (run_folder / "report.html").read_text()


def test_an_earlier_evaluation_is_forgotten_and_all_else_stays(evaluator, run_folder):
    evaluator.result()  # writes the shards
    EvaluationResult(evaluator.result(), evaluator.per_category(), {"paths": np.array(["a"])}).save(run_folder)
    (run_folder / "predictions" / "label_maps").mkdir()
    (run_folder / "predictions" / "0.png").touch()  # of `equigrad predict`
    remove_results(run_folder)
    left = sorted(str(file.relative_to(run_folder)) for file in run_folder.rglob("*"))
    assert left == ["metrics.jsonl", "predictions", "predictions/0.png", "recipe.json"]


def test_a_folder_without_a_test_has_nothing_to_forget(tmp_path):
    remove_results(tmp_path / "run")
    assert not (tmp_path / "run").exists()
