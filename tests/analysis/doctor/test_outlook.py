from pathlib import Path

import numpy as np
import pytest
from benchmarks.outlook import left_out, num_right, read_cases, table

from equigrad.analysis.doctor.outlook import FRESH, RECORD, answer, outlook
from equigrad.analysis.doctor.tail import Tail
from equigrad.data.frequency import exponential_profile, load_frequencies, pick_categories

DOCS = Path(__file__).parents[3] / "docs"
CASES = read_cases(DOCS / "evidence" / "outlook.csv")
FITTED = [case for case in CASES if case.kind != "fresh"]


def test_the_rule_is_right_on_seven_of_eight_training_sets_of_images_it_was_not_fitted_to():
    right, total = np.sum(list(left_out(FITTED).values()), axis=0)
    assert total == len(FITTED)
    assert right / total >= 7 / 8


def test_the_doctor_says_how_often_each_answer_was_right():
    for given, record in RECORD.items():
        own = [case for case in CASES if answer(case.imbalance, case.few) == given]
        assert record == (num_right(own), len(own))
        fresh = [case for case in own if case.kind == "fresh"]
        assert FRESH[given] == (num_right(fresh), len(fresh))


def test_the_page_has_the_table_that_was_measured():
    page = (DOCS / "doctor.md").read_text()
    assert table(FITTED) in page
    assert table([case for case in CASES if case.kind == "fresh"]) in page


def test_the_generated_data_sets_have_the_numbers_of_the_table():
    by_name = {case.training_set: case for case in CASES if case.pool == "glyphs"}
    images = exponential_profile(40, 300, 100)
    objects = np.minimum(pick_categories(load_frequencies("lvis_v1").image_counts, 120), 1000)
    for name, counts in (("the demo, 300 to 3 images", images), ("objects, two stages (AP)", objects)):
        tail = Tail(counts, counts, np.ones_like(counts))
        assert (tail.imbalance, round(tail.tested_few, 3)) == (by_name[name].imbalance, by_name[name].few)


def test_a_long_tested_tail_gets_a_loss_and_the_command_that_measures_it():
    counts = np.array([300, 100, 10, 3])
    because, advice = outlook(Tail(counts, counts, np.ones(4, int)), "classification", "photos")
    assert "imbalance factor 100, and 50 % of the tested categories" in because
    assert "right on 10 of 16 measured training sets, and on 0 of 6 that the rule was not fitted to" in because
    assert "try softmax_eql with its defaults" in advice
    assert "equigrad compare photos --methods ce,balanced_softmax,softmax_eql" in advice


@pytest.mark.parametrize(
    "counts",
    [[15, 12, 10], [900, 300, 120], [15, 6, 2]],
    ids=["balanced", "without few-shot categories", "a short tail"],
)
def test_without_a_tail_the_plain_loss_is_kept(counts):
    counts = np.array(counts)
    assert outlook(Tail(counts, counts, np.ones(3, int)), "detection", None)[-1] == "stay with bce"
