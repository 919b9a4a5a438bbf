import math

import pytest
import torch
import torch.distributed as dist

from equigrad import IGNORE
from equigrad.evaluation.segmentation import SegmentationEvaluator, equal_groups, iou_and_accuracy
from equigrad.evaluation.tables import write_table
from quick_processes import run_ranks

NAMES = ["road", "sky", "tram"]
COUNTS = [900, 500, 10]
TRUTH = torch.tensor([[0, 0, 0, 1], [1, 1, 2, IGNORE]])
ANSWER = torch.tensor([[0, 0, 1, 1], [1, 0, 0, 2]])


def added(evaluator, predicted, labels):
    evaluator.add([{"labels": row} for row in predicted], {"labels": labels})
    return evaluator


@pytest.fixture
def evaluator():
    return added(SegmentationEvaluator(NAMES, COUNTS), ANSWER[None], TRUTH[None])


def test_a_case_worked_out_by_hand(evaluator):
    # road: 2 right of 3, and 2 more pixels taken for it; sky: 2 of 3, and 1 more; tram: 0 of 1.
    assert evaluator.confusion().tolist() == [[2, 1, 0], [1, 2, 0], [1, 0, 0]]
    result = evaluator.result()
    assert list(result) == ["mIoU", "mIoU1", "mIoU2", "mIoU3", "mAcc", "mAcc1", "mAcc2", "mAcc3", "aAcc"]
    assert [result[f"mIoU{number}"] for number in (1, 2, 3)] == pytest.approx([2 / 5, 2 / 4, 0])
    assert [result[f"mAcc{number}"] for number in (1, 2, 3)] == pytest.approx([2 / 3, 2 / 3, 0])
    assert result["mIoU"] == pytest.approx(0.3)
    assert result["mAcc"] == pytest.approx(4 / 9)
    assert result["aAcc"] == pytest.approx(4 / 7)


def test_iou_and_accuracy_are_those_of_sets_of_pixels():
    num_classes = 12
    predicted, labels = torch.randint(num_classes, (2, 5, 30, 40))
    labels[torch.rand(labels.shape) < 0.2] = IGNORE
    evaluator = SegmentationEvaluator([str(index) for index in range(num_classes)], range(num_classes))
    for chunk, truth in zip(predicted.split(2), labels.split(2), strict=True):
        added(evaluator, chunk, truth)
    pixels = zip(labels.flatten().tolist(), predicted.flatten().tolist(), strict=True)
    counted = [(index, *pair) for index, pair in enumerate(pixels) if pair[0] != IGNORE]
    ious, accuracies = [], []
    for category in range(num_classes):
        actual = {index for index, label, _ in counted if label == category}
        found = {index for index, _, answer in counted if answer == category}
        ious.append(len(actual & found) / len(actual | found))
        accuracies.append(len(actual & found) / len(actual))
    result = evaluator.result()
    assert [row.IoU for row in evaluator.per_category()] == pytest.approx(ious)
    assert [row.Acc for row in evaluator.per_category()] == pytest.approx(accuracies)
    assert result["mIoU"] == pytest.approx(sum(ious) / num_classes)
    assert result["mAcc"] == pytest.approx(sum(accuracies) / num_classes)


def test_absent_categories_are_left_out_and_invented_ones_are_not():
    evaluator = SegmentationEvaluator(["a", "b", "c", "d"], [4, 3, 2, 1])
    added(evaluator, torch.tensor([[[0, 0, 1, 2]]]), torch.tensor([[[0, 0, 1, 1]]]))
    iou, accuracy = iou_and_accuracy(evaluator.confusion())
    assert iou[:3].tolist() == [1.0, 0.5, 0.0]  # c is predicted but not there
    assert accuracy[:2].tolist() == [1.0, 0.5]
    assert iou[3].isnan()
    assert accuracy[2:].isnan().all()
    assert evaluator.result()["mIoU"] == pytest.approx(0.5)
    assert evaluator.result()["mAcc"] == pytest.approx(0.75)


def test_a_group_without_any_category_is_nan():
    evaluator = added(SegmentationEvaluator(NAMES, COUNTS), torch.tensor([[[0]]]), torch.tensor([[[0]]]))
    assert math.isnan(evaluator.result()["mAcc3"])


def test_ade20k_has_three_groups_of_50_by_index():
    by_index = SegmentationEvaluator([str(index) for index in range(150)], range(150), group_by="index")
    assert [group.tolist() for group in by_index.groups] == [list(range(start, start + 50)) for start in (0, 50, 100)]


def test_groups_by_count_have_equal_sizes():
    head, medium, tail = equal_groups([5, 100, 7, 90, 0, 60, 50])
    assert (head.tolist(), medium.tolist(), tail.tolist()) == ([1, 3, 5], [2, 6], [0, 4])


def test_ignored_pixels_may_have_any_prediction(evaluator):
    before = evaluator.confusion()
    added(evaluator, torch.tensor([[[77, -3]]]), torch.tensor([[[IGNORE, IGNORE]]]))
    assert torch.equal(evaluator.confusion(), before)


def test_parts_of_an_image_add_up(evaluator):
    parts = added(SegmentationEvaluator(NAMES, COUNTS), ANSWER[None, :1], TRUTH[None, :1])
    added(parts, ANSWER[None, 1:], TRUTH[None, 1:])
    assert parts.result() == evaluator.result()


def test_images_of_a_batch_may_have_different_sizes():
    evaluator = SegmentationEvaluator(NAMES, COUNTS)
    labels = [torch.zeros(2, 3, dtype=torch.int64), torch.ones(4, 1, dtype=torch.int64)]
    added(evaluator, labels, labels)
    assert evaluator.confusion().diagonal().tolist() == [6, 4, 0]


@pytest.mark.parametrize(
    ("predicted", "labels", "problem"),
    [
        ([[[3]]], [[[0]]], r"predictions must be in 0\.\.2, got 3"),
        ([[[0]]], [[[-1]]], r"labels must be in 0\.\.2, got -1"),
        ([[[0, 0]]], [[[0]]], r"predictions must be \(1, 1\), got \(1, 2\)"),
        ([[[0]], [[0]]], [[[0]]], "argument"),
    ],
)
def test_what_does_not_fit_is_refused(predicted, labels, problem):
    with pytest.raises(ValueError, match=problem):
        added(SegmentationEvaluator(NAMES, COUNTS), torch.tensor(predicted), torch.tensor(labels))


def test_wrong_settings_and_missing_predictions_are_refused():
    with pytest.raises(ValueError, match="category_counts must have 3 entries, got 2"):
        SegmentationEvaluator(NAMES, [1, 2])
    with pytest.raises(ValueError, match="group_by"):
        SegmentationEvaluator(NAMES, COUNTS, group_by="size")
    with pytest.raises(ValueError, match="no predictions were added"):
        SegmentationEvaluator(NAMES, COUNTS).result()


def test_rows_say_what_a_category_is_taken_for(evaluator, tmp_path):
    rows = evaluator.per_category()
    assert [row.group for row in rows] == ["head", "medium", "tail"]
    assert (rows[0].num_pixels, rows[0].num_predicted, rows[0].IoU, rows[0].count) == (3, 4, 0.4, 900)
    assert [row.most_confused_with for row in rows] == ["sky", "road", "road"]
    assert write_table(rows, tmp_path / "rows.csv").read_text().splitlines()[3] == "tram,10,tail,1,0,0.0,0.0,road"


def test_an_evaluation_file_keeps_the_rows(evaluator, tmp_path):
    from equigrad.analysis import Evaluation

    Evaluation.from_rows(evaluator.result(), evaluator.per_category()).save(tmp_path)
    loaded = Evaluation.load(tmp_path)
    assert next(iter(loaded.result)) == "mIoU"
    assert loaded.categories[1].metrics["IoU"] == pytest.approx(0.5)


def rank_main(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    part = slice(rank, rank + 1)
    evaluator = added(SegmentationEvaluator(NAMES, COUNTS), ANSWER[None, part], TRUTH[None, part])
    torch.save(evaluator.confusion(), folder / f"{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_count_like_one(evaluator, tmp_path):
    run_ranks(rank_main, tmp_path)
    for rank in range(2):
        assert torch.equal(torch.load(tmp_path / f"{rank}.pt"), evaluator.confusion())
