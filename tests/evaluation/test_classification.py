import math

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from equigrad.evaluation.classification import ClassificationEvaluator, calibration_error
from quick_processes import quick_context, run_ranks


def predictions_of(answers, num_classes, confidence=0.9):
    scores = torch.full((len(answers), num_classes), (1 - confidence) / (num_classes - 1))
    scores[torch.arange(len(answers)), torch.tensor(answers)] = confidence
    return [{"scores": row} for row in scores]


@pytest.fixture
def evaluator():
    """Head, middle and two tail categories; of 8 test images 5 are right."""
    evaluator = ClassificationEvaluator([500, 50, 5, 2], ["dog", "cat", "newt", "olm"])
    evaluator.add(predictions_of([0, 0, 1, 0], 4), {"labels": torch.tensor([0, 0, 1, 1])})
    evaluator.add(predictions_of([2, 0, 0, 3], 4), {"labels": torch.tensor([2, 2, 3, 3])})
    return evaluator


def test_a_case_worked_out_by_hand(evaluator):
    result = evaluator.result()
    assert list(result) == ["Overall", "Many", "Medium", "Few", "top5", "mean_class_accuracy", "ECE"]
    assert result["Overall"] == 5 / 8
    assert (result["Many"], result["Medium"], result["Few"]) == (1.0, 0.5, 0.5)
    assert result["mean_class_accuracy"] == 0.625
    assert result["top5"] == 1.0
    assert result["ECE"] == pytest.approx(0.9 - 5 / 8)


def test_groups_agree_with_the_published_evaluation(golden):
    case = golden("shot_split")
    evaluator = ClassificationEvaluator(case["train_counts"])
    evaluator.add(predictions_of(case["predictions"], 14), {"labels": torch.tensor(case["labels"])})
    result = evaluator.result()
    for name in ("many", "medium", "few", "overall"):
        assert result[name.capitalize()] == pytest.approx(case[name], abs=1e-12)


def test_the_two_conventions_differ_at_the_edges():
    counts = [100, 20, 50, 200]
    few = {
        convention: ClassificationEvaluator(counts, convention=convention).groups["Few"].tolist()
        for convention in ("code", "paper")
    }
    assert few == {"code": [], "paper": [1]}


def test_batches_of_any_size_give_the_same_result():
    labels, scores = torch.randint(0, 7, (40,)), torch.rand(40, 7).softmax(1)
    counts = [300, 120, 90, 40, 15, 8, 2]
    whole, batched = ClassificationEvaluator(counts), ClassificationEvaluator(counts)
    rows = [{"scores": row} for row in scores]
    whole.add(rows, {"labels": labels})
    for part in (slice(0, 13), slice(13, 13), slice(13, 40)):
        batched.add(rows[part], {"labels": labels[part]})
    assert batched.result() == whole.result()
    assert batched.per_category() == whole.per_category()


def test_categories_without_test_images_do_not_count(evaluator):
    wider = ClassificationEvaluator([500, 50, 5, 2, 1])
    wider.add(predictions_of([2, 0], 5), {"labels": torch.tensor([2, 2])})
    result = wider.result()
    assert result["Few"] == 0.5
    assert math.isnan(result["Many"])
    assert math.isnan(wider.per_category()[4].accuracy)


def test_rows_name_the_worst_confusion(evaluator):
    rows = {row.name: row for row in evaluator.per_category()}
    assert (rows["newt"].group, rows["newt"].count, rows["newt"].accuracy) == ("Few", 5, 0.5)
    assert (rows["newt"].most_confused_with, rows["newt"].confused) == ("dog", 0.5)
    assert (rows["dog"].most_confused_with, rows["dog"].confused) == ("", 0.0)


def test_top5_counts_the_five_best():
    evaluator = ClassificationEvaluator([10] * 8)
    scores = torch.arange(8.0).flip(0)
    evaluator.add([{"scores": scores}] * 2, {"labels": torch.tensor([4, 5])})
    assert evaluator.result()["top5"] == 0.5


def test_calibrated_confidences_have_no_error():
    is_correct = torch.tensor([True, True, True, False] * 25)
    assert calibration_error(torch.full((100,), 0.75), is_correct) == pytest.approx(0)
    assert calibration_error(torch.ones(100), is_correct) == pytest.approx(0.25)
    # Over- and under-confidence in different bins do not cancel.
    assert_close(calibration_error(torch.tensor([1.0, 0.5]), torch.tensor([False, True])), 0.75)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (torch.zeros(2, 3), [0, 1], r"scores must be \(4,\)"),
        (torch.zeros(2, 4), [0, 4], r"labels must be in 0\.\.3"),
        (torch.zeros(2, 4), [0], "must have one length, got 2 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(scores, labels, message):
    evaluator = ClassificationEvaluator([1, 1, 1, 1])
    with pytest.raises(ValueError, match=message):
        evaluator.add([{"scores": row} for row in scores], {"labels": torch.tensor(labels)})


def test_nothing_added_gives_no_result():
    with pytest.raises(ValueError, match="no predictions were added"):
        ClassificationEvaluator([1, 2]).result()


def rank_result(rank, store, queue):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    evaluator = ClassificationEvaluator([500, 50, 5, 2])
    answers, labels = [([0, 0, 1], [0, 0, 1]), ([0, 2, 0, 0, 3], [1, 2, 2, 3, 3])][rank]
    evaluator.add(predictions_of(answers, 4), {"labels": torch.tensor(labels)})
    queue.put(evaluator.result())
    dist.destroy_process_group()


def test_two_ranks_give_the_result_of_one(evaluator, tmp_path):
    queue = quick_context().SimpleQueue()
    run_ranks(rank_result, tmp_path / "store", queue)
    expected = evaluator.result()
    for _ in range(2):
        assert queue.get() == pytest.approx(expected)
