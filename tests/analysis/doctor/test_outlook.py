from pathlib import Path

import numpy as np
import pytest
from benchmarks.outlook import FORMS, error, fitted, is_inside, left_out, read_cases, table

from equigrad.analysis.doctor.outlook import NEW, POINTS_PER_TENFOLD, forecast, outlook
from equigrad.analysis.doctor.tail import Tail
from equigrad.data.frequency import exponential_profile, load_frequencies, pick_categories

DOCS = Path(__file__).parents[3] / "docs"
CASES = read_cases(DOCS / "evidence" / "outlook.csv")
FITTED = [case for case in CASES if case.kind == "fitted"]


def test_four_of_five_gains_are_in_the_interval_of_a_forecast_from_other_images():
    inside, total = np.sum(list(left_out(FITTED).values()), axis=0)
    assert total == len(FITTED)
    assert inside / total >= 4 / 5


def test_the_forecast_is_the_one_that_is_fitted_to_the_measurements():
    assert pytest.approx(fitted(FITTED), abs=0.05) == POINTS_PER_TENFOLD


def test_no_other_form_is_better_on_images_it_is_not_fitted_to():
    errors = [error(FITTED, form) for form in FORMS.values()]
    assert errors[0] == min(errors)
    page = (DOCS / "evidence" / "outlook.md").read_text()
    assert all(f"| {value:.2f} |" in page for value in errors)


def test_the_doctor_says_how_often_new_gains_were_in_the_interval():
    new = [case for case in CASES if case.kind == "new"]
    assert (sum(is_inside(case, POINTS_PER_TENFOLD) for case in new), len(new)) == NEW


def test_the_page_has_the_table_that_was_measured():
    assert table(CASES) in (DOCS / "evidence" / "outlook.md").read_text()


def test_the_generated_data_sets_have_the_numbers_of_the_table():
    by_name = {case.training_set: case for case in CASES if case.pool == "glyphs"}
    images = exponential_profile(40, 300, 100)
    objects = np.minimum(pick_categories(load_frequencies("lvis_v1").image_counts, 120), 1000)
    for name, counts in (("the demo, 300 to 3 images", images), ("objects, two stages (AP)", objects)):
        tail = Tail(counts, counts, np.ones_like(counts))
        assert (tail.imbalance, round(tail.tested_few, 3)) == (by_name[name].imbalance, by_name[name].few)


def test_a_tenfold_imbalance_of_few_shot_categories_gains_its_points_by_half_or_more():
    assert forecast(10, 1) == pytest.approx((1.6, 0.8, 2.4))
    assert forecast(100, 0.25).points == pytest.approx(1.6)
    assert forecast(1, 1).points == forecast(100, 0).points == 0


def test_a_long_tested_tail_gets_a_forecast_a_loss_and_the_command_that_measures_it():
    counts = np.array([300, 100, 10, 3])
    because, advice = outlook(Tail(counts, counts, np.ones(4, int)), "classification", "photos")
    assert "forecast to add 2.3 points to the category mean, between 1.1 and 3.4: imbalance factor 100" in because
    assert f"{NEW.num_inside} of {NEW.num_measured} gains measured afterwards" in because
    assert "try softmax_eql with its defaults" in advice
    assert "equigrad compare photos --methods ce,balanced_softmax,softmax_eql" in advice


def test_a_forecast_for_objects_says_that_it_was_fitted_to_classifiers():
    counts = np.array([300, 100, 10, 3])
    because, _ = outlook(Tail(counts, counts, np.ones(4, int)), "detection", None)
    assert "fitted to classifiers of images" in because


@pytest.mark.parametrize(
    "counts",
    [[15, 12, 10], [900, 300, 120], [12, 6, 4]],
    ids=["balanced", "without few-shot categories", "a short tail"],
)
def test_without_a_tail_the_plain_loss_is_kept(counts):
    counts = np.array(counts)
    assert outlook(Tail(counts, counts, np.ones(3, int)), "detection", None)[-1] == "stay with bce"


def test_several_categories_in_an_image_have_no_forecast():
    counts = np.array([300, 100, 10, 3])
    (line,) = outlook(Tail(counts, counts, np.ones(4, int)), "multi_label", "photos")
    assert "cannot be forecast; measure it: equigrad compare photos" in line
