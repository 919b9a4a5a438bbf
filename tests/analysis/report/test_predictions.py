import numpy as np
import pytest

from analysis.run_folders import predictions, write_run
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.report.predictions import read_test_predictions


def read(folder):
    return read_test_predictions(folder, compare([RunHistory.load(folder)]).categories)


def test_takers_are_sorted_by_how_many_samples_they_take(tmp_path):
    labels, said = [5] * 10, [0, 0, 0, 1, 1, 5, 5, 5, 5, 2]
    found = read(write_run(tmp_path / "run", predictions=predictions(labels, said)))
    assert found.takers(5, 2) == [(0, 3), (1, 2)]
    assert found.totals(6).tolist() == [0, 0, 0, 0, 0, 10]
    assert found.right(6).tolist() == [0, 0, 0, 0, 0, 4]


def test_shares_of_a_group_are_means_over_its_categories(tmp_path):
    # Category 4 has two samples of which the head takes one; category 5 one, which is recognised.
    run = write_run(tmp_path / "run", predictions=predictions([4, 4, 5], [4, 0, 5]))
    categories = compare([RunHistory.load(run)]).categories
    shares = read(run).group_shares(categories)
    assert shares[2].tolist() == [0.75, 0.25, 0, 0]  # rare: correct, predicted as frequent, common, rare
    assert np.isnan(shares[0]).all()  # no test samples


def test_pixels_of_a_segmenter_are_read_from_its_confusion(tmp_path):
    confusion = np.zeros((6, 6), dtype=np.int64)
    confusion[5, 0], confusion[5, 5] = 7, 3
    found = read(write_run(tmp_path / "run", predictions={"confusion": confusion}))
    assert found.takers(5, 3) == [(0, 7)]
    assert found.images is None


def test_categories_are_in_the_order_of_the_comparison(tmp_path):
    entries = [
        {"name": name, "count": count, "group": "all", "AP": 0.5} for name, count in zip("abc", (1, 9, 5), strict=True)
    ]
    run = write_run(
        tmp_path / "run",
        statistics=None,
        evaluation={"result": {"AP": 0.5}, "categories": entries},
        predictions=predictions([0], [1]),
    )
    assert read(run).takers(2, 1) == [(0, 1)]  # "a" is the rarest of three, "b" the most frequent


def test_runs_of_other_tasks_have_none(tmp_path):
    assert read(write_run(tmp_path / "plain")) is None
    assert read(write_run(tmp_path / "other", predictions={"features": np.zeros(3)})) is None
    many = {
        "labels": np.zeros((2, 6), dtype=np.int64),
        "top": np.zeros((2, 1), dtype=np.int64),
        "scores": np.ones((2, 1)),
    }
    assert read(write_run(tmp_path / "multi_label", predictions=many)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": np.array([6]), "top": np.array([[0]]), "scores": np.array([[1.0]])},
        {"labels": np.array([0]), "top": np.array([[-1]]), "scores": np.array([[1.0]])},
        {"labels": np.array([0]), "top": np.array([[0]]), "scores": np.array([[np.nan]])},
        {"labels": np.array([0, 1]), "top": np.array([[0]]), "scores": np.array([[1.0]])},
        {"confusion": np.zeros((5, 6), dtype=np.int64)},
        {"confusion": np.full((6, 6), -1)},
    ],
    ids=["label", "prediction", "nan", "length", "shape", "negative"],
)
def test_a_broken_file_gets_one_line(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"test\.npz: expected labels, top and scores of 6 categories"):
        read(write_run(tmp_path / "run", predictions=wrong))
