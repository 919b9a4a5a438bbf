import math

import pytest

from equigrad.engine import SGD, Schedule, TrainSettings
from equigrad.engine.settings import check_positive

COUNTS = ("batch_size", "accumulate", "log_every", "keep_checkpoints", "evaluate_every")
OPTIONAL = ("checkpoint_every", "statistics_every", "max_grad_norm")


def settings(**changes):
    return TrainSettings(**{"optimizer": SGD(0.1), "schedule": Schedule(epochs=1), "batch_size": 8, **changes})


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", [*COUNTS, *OPTIONAL])
def test_what_is_not_above_zero_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be above 0, got {value}$"):
        settings(**{name: value})


@pytest.mark.parametrize("name", OPTIONAL)
def test_what_is_optional_may_be_none_or_above_zero(name):
    assert getattr(settings(**{name: None}), name) is None
    assert getattr(settings(**{name: 1}), name) == 1


def test_another_way_with_errors_is_refused():
    with pytest.raises(ValueError, match=r'^on_error must be "stop" or "skip", got \'ignore\'$'):
        settings(on_error="ignore")
    assert settings(on_error="skip").on_error == "skip"


def test_nan_is_not_above_zero():
    check_positive("rate", 1e-300)
    with pytest.raises(ValueError, match="rate must be above 0, got nan"):
        check_positive("rate", math.nan)
