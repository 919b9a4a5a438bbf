import re

from analysis.compared import compared
from equigrad.analysis.advice import advice

EVERYWHERE = dict.fromkeys(("Many", "Medium", "Few"), 0.1)


def test_a_gain_is_named_with_its_interval():
    sentence = advice(compared({"ce": {}, "eql": {"Few": 0.2}}))
    pattern = (
        r"eql is \d\.\d ± \d\.\d points above ce in category mean \(few \d+\.\d ± \d\.\d, overall \d\.\d ± \d\.\d\)"
    )
    assert re.match(pattern, sentence)
    assert sentence.endswith(", within the noise on medium-shot categories and on many-shot categories.")


def test_a_loss_of_the_best_method_is_named_too():
    sentence = advice(compared({"ce": {}, "eql": {"Few": 0.3, "Many": -0.1}}))
    assert re.search(
        r"; it is \d+\.\d ± \d\.\d points below ce on many-shot categories: stay with ce if that", sentence
    )


def test_a_gain_of_rare_categories_alone_is_enough():
    sentence = advice(compared({"ce": {}, "eql": {"Few": 0.15, "Many": -0.15}}))
    assert re.match(r"eql is 1\d\.\d ± \d\.\d points above ce on few-shot categories", sentence)
    assert "within the noise in category mean" in sentence
    assert "below ce on many-shot categories" in sentence


def test_methods_that_cannot_be_told_from_the_best_are_named():
    sentence = advice(compared({"ce": {}, "a": EVERYWHERE, "b": EVERYWHERE, "c": {"Few": 0.02}}))
    assert re.search(r"; no clear difference from [ab] in category mean\.", sentence)


def test_no_difference_beyond_the_spread_says_so():
    sentence = advice(compared({"ce": {}, "a": {}, "b": {}}))
    assert sentence.startswith("No method differs from ce by more than the spread (largest in category mean: ")
    assert sentence.endswith("points); stay with ce.")


def test_only_losses_say_to_stay():
    sentence = advice(compared({"ce": {}, "a": {"Few": -0.2}, "b": {}}))
    assert sentence.startswith("Stay with ce: no method is above it by more than the spread, and a is ")
    assert "points below ce" in sentence


def test_too_little_says_that_nothing_can_be_said():
    assert advice(compared({"ce": {}})) == "Only ce was measured: name a second method to compare it with."
    assert advice(compared({"ce": {}, "a": EVERYWHERE}, num_seeds=1)).startswith("One seed has no spread")
