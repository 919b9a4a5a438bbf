from dataclasses import replace

import pytest

from analysis.compared import compared
from equigrad.analysis.compared_methods import ComparedMethods


@pytest.fixture
def folders(tmp_path):
    """Two methods with two seeds each."""
    results = compared({"ce": {}, "eql": {"Few": 0.1}}, num_seeds=2)
    found = {}
    for name, evaluations in zip(results.methods, results.evaluations, strict=True):
        found[name] = [tmp_path / f"{name}_{seed}" for seed in range(2)]
        for folder, evaluation in zip(found[name], evaluations, strict=True):
            folder.mkdir()
            evaluation.save(folder)
    return found, results


def test_what_was_saved_is_read_again(folders):
    found, results = folders
    read = ComparedMethods.load("classification", found)
    assert read.num_seeds == 2
    assert read.num_test == 300
    assert read.means == pytest.approx(results.means)
    assert read.differences.margin == pytest.approx(results.differences.margin)


def test_the_overall_metric_counts_categories_by_their_test_samples():
    results = compared({"ce": {}, "eql": {"Few": 0.1}})
    weighted = tuple(
        tuple(
            replace(e, categories=tuple(replace(c, num_test=90 if c.group == "Few" else 0) for c in e.categories))
            for e in row
        )
        for row in results.evaluations
    )
    overall, category_mean, *_, few = replace(results, evaluations=weighted).differences.estimate[1]
    assert overall == pytest.approx(few)
    assert overall > category_mean + 5


def test_rows_of_other_data_are_refused(folders):
    found, results = folders
    evaluation = results.evaluations[0][0]
    replace(evaluation, categories=evaluation.categories[::-1]).save(found["eql"][1])
    with pytest.raises(ValueError, match=r"eql_1: its categories are not those of .*ce_0; the data must have changed"):
        ComparedMethods.load("classification", found)
