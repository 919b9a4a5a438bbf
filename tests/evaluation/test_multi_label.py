import math

import numpy as np
import pytest
import torch

from equigrad.evaluation.multi_label import MultiLabelEvaluator, average_precision


def test_average_precision_worked_out_by_hand():
    # Ranked: hit, miss, hit, miss: precision 1 at recall 1/2 and 2/3 at recall 1.
    scores, shown = np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False])
    assert average_precision(scores, shown) == pytest.approx((1 + 2 / 3) / 2)


def test_equal_scores_count_at_once_in_any_order():
    shown = np.array([True, False, True, False])
    assert average_precision(np.full(4, 0.5), shown) == average_precision(np.full(4, 0.5), ~shown) == 0.5


def test_a_category_that_no_image_shows_has_no_precision():
    assert math.isnan(average_precision(np.zeros(3), np.zeros(3, dtype=bool)))


def evaluated():
    evaluator = MultiLabelEvaluator([200, 50, 5], ["a", "b", "c"])
    scores = torch.tensor([[0.9, 0.2, 0.1], [0.6, 0.8, 0.3], [0.1, 0.4, 0.2]])
    labels = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]])
    for rows in ([0, 1], [2]):
        evaluator.add([{"scores": scores[row]} for row in rows], {"labels": labels[rows]})
    return evaluator


def test_groups_are_means_over_categories_that_are_tested():
    result = evaluated().result()
    assert result["Many"] == pytest.approx((1 + 2 / 3) / 2)
    assert result["Medium"] == 1
    assert math.isnan(result["Few"])
    assert result["mAP"] == pytest.approx((result["Many"] + 1) / 2)
    assert result["F1"] == pytest.approx(2 * 2 / (3 + 3))


def test_a_row_has_precision_and_recall_at_one_half():
    row, _, untested = evaluated().per_category()
    assert (row.name, row.count, row.group, row.num_test) == ("a", 200, "Many", 2)
    assert (row.precision, row.recall) == (0.5, 0.5)
    assert math.isnan(untested.AP)


def test_wrong_shapes_and_an_empty_test_are_refused():
    evaluator = MultiLabelEvaluator([1, 1], ["a", "b"])
    with pytest.raises(ValueError, match=r"labels must be \(1, 2\), got \(1,\)"):
        evaluator.add([{"scores": torch.zeros(2)}], {"labels": torch.zeros(1)})
    with pytest.raises(ValueError, match="no predictions"):
        evaluator.result()
    with pytest.raises(ValueError, match="class_names must have 1 entries"):
        MultiLabelEvaluator([1], ["a", "b"])
