import numpy as np
import pytest

from equigrad.analysis.doctor.outlook import MEASURED, answer, outlook
from equigrad.analysis.doctor.tail import Tail
from equigrad.data.frequency import exponential_profile, load_frequencies, pick_categories


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: case.name)
def test_the_rule_is_right_on_a_data_set_it_was_not_fitted_to(case):
    others = [other for other in MEASURED if other is not case]
    assert answer(case.imbalance, case.tested_few, others) == ("likely" if case.gained else "unlikely")


def test_the_generated_data_sets_have_the_numbers_of_the_table():
    by_name = {case.name: case for case in MEASURED}
    images = exponential_profile(40, 300, 100)
    objects = np.minimum(pick_categories(load_frequencies("lvis_v1").image_counts, 120), 1000)
    for name, counts in (("glyph images", images), ("glyph objects", objects)):
        tail = Tail(counts, counts, np.ones_like(counts))
        assert (tail.imbalance, tail.tested_few) == (by_name[name].imbalance, by_name[name].tested_few)


def test_a_long_tested_tail_gets_a_loss_and_the_command_that_measures_it():
    counts = np.array([300, 100, 10, 3])
    because, advice = outlook(Tail(counts, counts, np.ones(4, int)), "classification", "photos")
    assert "imbalance factor 100, and 50 % of the tested categories" in because
    assert "try softmax_eql with its defaults" in advice
    assert "equigrad compare photos --methods ce,balanced_softmax,softmax_eql" in advice


@pytest.mark.parametrize("counts", [[15, 12, 10], [900, 300, 120]], ids=["balanced", "without few-shot categories"])
def test_without_a_tail_the_plain_loss_is_kept(counts):
    counts = np.array(counts)
    assert outlook(Tail(counts, counts, np.ones(3, int)), "detection", None)[-1] == "stay with bce"
