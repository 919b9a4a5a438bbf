import math

import pytest
import torch

from equigrad.analysis.history import Evaluation
from equigrad.recipes.detection_results import DetectionTest, remove_results
from equigrad.recipes.overrides import override
from small_detection_data import data_settings, known, write_small_data


@pytest.fixture
def evaluator(tmp_path):
    sets = override(known(), data_settings(write_small_data(tmp_path / "data"))).load()
    evaluator = sets.evaluator(tmp_path / "run" / "predictions", ("bbox",))
    _, target = sets.test[0]
    found = {"boxes": target["boxes"].as_subclass(torch.Tensor), "labels": target["labels"], "scores": torch.ones(2)}
    evaluator.add([found], [target])
    return evaluator


def test_a_test_has_the_metrics_of_its_evaluator_and_a_row_for_each_category(evaluator):
    tested = DetectionTest.of(evaluator)
    assert tested.result() == pytest.approx(evaluator.result(), nan_ok=True)
    assert [category.name for category in tested.evaluation.categories] == ["cup", "jug", "urn", "vat"]
    assert math.isnan(tested.result()["APl"])
    assert tested.evaluation.result["APl"] is None


def test_an_earlier_test_is_forgotten_and_all_else_stays(evaluator, tmp_path):
    folder = tmp_path / "run"
    DetectionTest.of(evaluator).evaluation.save(folder)
    assert Evaluation.load(folder).result["APc"] > 0
    (folder / "report.html").touch()
    (folder / "predictions" / "0.png").touch()  # of `equigrad predict`
    (folder / "recipe.json").touch()
    remove_results(folder)
    left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.*"))
    assert left == ["predictions/0.png", "recipe.json"]


def test_a_folder_without_a_test_has_nothing_to_forget(tmp_path):
    remove_results(tmp_path / "run")
    assert not (tmp_path / "run").exists()
