import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equigrad.evaluation.detection.average_precision import RECALL_LEVELS, average_precision, mean_known


def flags(text):
    return np.array([character == "1" for character in text])


def test_value_worked_out_by_hand():
    # Found, missed, found of 3: precision 1 up to recall 1/3 (34 levels), 2/3 up to 2/3 (33 levels), then nothing.
    assert average_precision(flags("101"), flags("111"), 3) == pytest.approx((34 + 33 * 2 / 3) / 101, abs=1e-12)


def test_an_ignored_detection_is_no_mistake():
    assert average_precision(flags("001"), flags("001"), 1) == pytest.approx(1)


def test_without_detections_it_is_zero():
    assert average_precision(flags(""), flags(""), 5) == 0


@given(st.lists(st.sampled_from(["true", "false", "ignored"]), max_size=30), st.integers(0, 5))
def test_it_is_the_mean_of_the_best_precision_from_each_recall_on(outcomes, missed):
    is_true = np.array([outcome == "true" for outcome in outcomes], bool)
    is_counted = np.array([outcome != "ignored" for outcome in outcomes], bool)
    num = int(is_true.sum()) + missed
    if num == 0:
        return
    best = []
    for level in RECALL_LEVELS:
        precisions = [0.0]
        for end in range(1, len(outcomes) + 1):
            found, counted = is_true[:end].sum(), is_counted[:end].sum()
            if found / num >= level and counted:
                precisions.append(found / counted)
        best.append(max(precisions))
    assert average_precision(is_true, is_counted, num) == pytest.approx(np.mean(best), abs=1e-12)


def test_the_mean_leaves_out_what_is_unknown():
    assert mean_known(np.array([1.0, np.nan, 0.0])) == 0.5
    assert math.isnan(mean_known(np.array([np.nan])))
