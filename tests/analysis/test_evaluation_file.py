import json
from dataclasses import dataclass

import pytest

from analysis.run_folders import NAMES, evaluation
from equigrad.analysis.evaluation_file import CategoryResult, Evaluation


def test_an_evaluation_is_read_as_it_was_saved(tmp_path):
    rows = (
        CategoryResult("a", 200, {"IoU": 0.5, "accuracy": None}, "head"),
        CategoryResult("b", 1, {"IoU": 1.0}, "tail"),
    )
    saved = Evaluation({"mIoU": 0.75, "mAcc": None}, rows)
    saved.save(tmp_path)
    assert Evaluation.load(tmp_path) == saved
    assert [file.name for file in tmp_path.iterdir()] == ["evaluation.json"]


def test_groups_by_count_where_the_file_has_none(tmp_path):
    Evaluation({"Overall": 0.5}, tuple(CategoryResult(str(n), n, {}) for n in (101, 20, 19))).save(tmp_path)
    assert [category.group for category in Evaluation.load(tmp_path).categories] == ["many", "medium", "few"]


@dataclass
class Row:
    name: str
    count: int
    group: str
    num_test: int
    accuracy: float
    confused_with: str


def test_rows_of_an_evaluator_become_categories_with_their_metrics(tmp_path):
    rows = [Row("a", 9, "Few", 1, 0.25, "b"), Row("b", 200, "Many", 0, float("nan"), "")]
    made = Evaluation.from_rows({"Overall": 0.25, "Medium": float("nan")}, rows)
    assert made.result == {"Overall": 0.25, "Medium": None}
    assert [dict(category.metrics) for category in made.categories] == [{"accuracy": 0.25}, {"accuracy": None}]
    made.save(tmp_path)
    assert Evaluation.load(tmp_path) == made


@pytest.mark.parametrize("name", ["num_test", "num_pixels", "num_instances"])
def test_the_test_samples_of_a_category_are_kept_whatever_they_are(tmp_path, name):
    rows = [{"name": "cat", "count": 3, "group": "few", name: 7, "accuracy": 0.5}]
    Evaluation.from_rows({"Overall": 0.5}, rows).save(tmp_path)
    (category,) = Evaluation.load(tmp_path).categories
    assert category.num_test == 7
    assert category.metrics == {"accuracy": 0.5}


def test_text_and_whole_numbers_of_a_category_are_left_to_other_readers(tmp_path):
    content = evaluation([0.5] * 6)
    content["categories"][0] |= {"num_test": 40, "confused_with": "car"}
    (tmp_path / "evaluation.json").write_text(json.dumps(content))
    assert dict(Evaluation.load(tmp_path).categories[0].metrics) == {"AP": 0.5}
    assert [category.name for category in Evaluation.load(tmp_path).categories] == list(NAMES)
