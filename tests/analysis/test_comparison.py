import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from analysis.run_folders import COUNTS, PATH, evaluation, statistics, write_run
from equigrad.analysis.comparison import compare, evenly_chosen, smoothed
from equigrad.analysis.history import RunHistory


def load(folder, **content):
    return RunHistory.load(write_run(folder, **content))


def shuffled(content, order):
    return {**content, "categories": [content["categories"][index] for index in order]}


def test_categories_are_sorted_by_count_and_everything_follows(tmp_path):
    order = [5, 2, 0, 4, 1, 3]
    values = np.array([0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    ratio = np.array([1, 0.9, 0.6, 0.4, 0.1, 0.01])
    content = shuffled(evaluation(values), order)
    comparison = compare([load(tmp_path / "run", evaluation=content, statistics=statistics(ratio[order]))])
    (run,) = comparison.runs
    assert comparison.categories.names[0] == "person"
    assert comparison.categories.counts.tolist() == list(COUNTS)
    np.testing.assert_allclose(run.metric, values)
    np.testing.assert_allclose(run.statistics.ratio[-1], ratio)
    assert comparison.categories.group_sizes() == {"frequent": 2, "common": 2, "rare": 2}


def test_group_ratios_are_medians_of_their_members(tmp_path):
    comparison = compare([load(tmp_path / "run", ratio=(1, 0.8, 0.5, 0.3, 0.2, 0.0))])
    ratios = comparison.group_ratios(comparison.runs[0])
    np.testing.assert_allclose(ratios[-1], [0.9, 0.4, 0.1])
    assert np.isnan(ratios[0]).all()


def test_without_an_evaluation_positive_gradient_stands_in_for_counts(tmp_path):
    comparison = compare([load(tmp_path / "run", ratio=(0.1, 0.5, 0.9), evaluation=None)])
    assert comparison.categories.counts is None
    assert comparison.categories.names == ("category 2", "category 1", "category 0")
    assert comparison.categories.group_names[comparison.categories.groups[0]] == "head third"


def test_runs_in_folders_of_the_same_name_are_told_apart(tmp_path):
    runs = [load(tmp_path / parent / "run") for parent in ("a", "b", "c")]
    assert [run.name for run in compare(runs).runs] == ["run", "run (2)", "run (3)"]


def test_runs_with_other_categories_are_refused(tmp_path):
    other = evaluation([0.5] * 6, names=("a", "b", "c", "d", "e", "f"))
    with pytest.raises(ValueError, match="its categories are not those of"):
        compare([load(tmp_path / "one"), load(tmp_path / "two", evaluation=other)])


def test_runs_with_another_number_of_categories_are_refused(tmp_path):
    runs = [load(tmp_path / "one"), load(tmp_path / "two", ratio=(1, 1), evaluation=None)]
    with pytest.raises(ValueError, match="its statistics have 2 categories, those of the other runs 6"):
        compare(runs)


def test_runs_with_nothing_to_show_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no run has statistics\.npz or"):
        compare([load(tmp_path / "run", statistics=None, evaluation=None)])
    with pytest.raises(ValueError, match="at least one run"):
        compare([])


def test_the_first_of_several_statistics_is_shown(tmp_path):
    first, second = statistics([1.0] * 6), statistics([0.5] * 6)
    both = {**first, **{name.replace(PATH, "second"): array for name, array in second.items()}}
    run = load(tmp_path / "run", statistics=both)
    assert compare([run]).runs[0].statistics.ratio[-1, 0] == 1


@pytest.mark.parametrize(
    ("metrics", "groups", "expected"),
    [
        (["Overall", "Many", "Medium", "Few", "top5"], ["many", "medium", "few"], ["Overall", "Many", "Medium", "Few"]),
        (["AP", "AP50", "APs", "APr", "APc", "APf"], ["rare", "common", "frequent"], ["AP", "APr", "APc", "APf"]),
        (["mIoU", "mAcc", "mIoU_head", "mIoU_tail"], ["head", "tail"], ["mIoU", "mIoU_head", "mIoU_tail"]),
        (["mIoU", "mIoU1", "mIoU2", "mAcc", "mAcc1", "mAcc2"], ["head", "tail"], ["mIoU", "mIoU1", "mIoU2"]),
        (["AP", "APs", "APm", "APl"], ["many", "medium", "few"], ["AP", "APs", "APm", "APl"]),
    ],
)
def test_metrics_of_groups_are_found_by_name(tmp_path, metrics, groups, expected):
    content = evaluation([0.5] * 6, result=dict.fromkeys(metrics, 0.5))
    for category, group in zip(content["categories"], groups * 6, strict=False):
        category["group"] = group
    found = compare([load(tmp_path / "run", evaluation=content)]).group_metric_names()
    assert set(found) == set(expected)
    assert found[0] == expected[0]


@given(arrays.arrays(np.float64, st.integers(1, 300), elements=st.one_of(st.floats(0, 10), st.just(np.nan))))
def test_smoothing_stays_between_the_extremes_and_never_warns(values):
    found = smoothed(values)
    assert found.shape == values.shape
    if np.isfinite(found).any():
        assert np.nanmin(found) >= np.nanmin(values) - 1e-9
        assert np.nanmax(found) <= np.nanmax(values) + 1e-9
    assert np.isfinite(found[np.isfinite(values)]).all()


def test_smoothing_removes_a_single_outlier():
    values = np.ones(200)
    values[100] = 1000
    np.testing.assert_array_equal(smoothed(values), np.ones(200))


@given(st.integers(1, 1000), st.integers(1, 50))
def test_chosen_indices_are_few_ascending_and_include_the_last(count, limit):
    chosen = evenly_chosen(count, limit)
    assert len(chosen) <= limit
    assert chosen[-1] == count - 1
    assert (np.diff(chosen) > 0).all()
