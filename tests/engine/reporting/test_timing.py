import re
from datetime import datetime, timedelta

import pytest
import torch

from equigrad.engine.reporting import timing
from equigrad.engine.reporting.timing import Forecast, StepTimer, clock_time, duration, peak_memory

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so: `clock.append(seconds)`."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "monotonic", lambda: sum(now))
    return now


def test_the_forecast_leaves_out_the_first_step_and_is_told_once(clock):
    forecast = Forecast(100, 50, CPU)
    clock.append(60.0)  # workers start, the model is compiled
    told = [forecast.step_done(1)]
    for step in range(2, 8):
        clock.append(0.25)
        told.append(forecast.step_done(step))
    assert [text is not None for text in told] == [False] * 5 + [True, False]
    assert told[5].startswith("0.25 s per step: the last step is expected at ")
    assert "in 0:00:24, evaluations not counted; peak memory so far " in told[5]  # 94 steps


def test_slow_steps_are_forecast_sooner(clock):
    forecast = Forecast(100, None, CPU)
    assert forecast.step_done(41) is None  # of a resumed run
    clock.append(7.0)
    assert "in 0:06:46; peak memory" in forecast.step_done(42)  # 58 steps of 7 s


@pytest.mark.parametrize(("step", "num_left"), [(0, 4), (29, 4), (30, 3), (90, 1), (99, 1), (100, 0)])
def test_evaluations_to_come_count_once_one_was_made(step, num_left):
    forecast = Forecast(100, 30, CPU)  # after 30, 60, 90 and 100 steps
    assert forecast.evaluation_seconds(step) == 0
    assert forecast.evaluation_done(30, 20.0).startswith("an evaluation takes 0:00:20: the run is expected to end at ")
    assert forecast.evaluation_done(60, 10.0) is None
    assert forecast.evaluation_seconds(step) == num_left * 10


def test_means_of_steps_stay_until_they_are_reset(monkeypatch):
    moments = iter([0.0, 1.0, 5.0, 10.0, 13.0, 18.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(moments))
    timer = StepTimer()
    for _ in range(2):
        timer.start()
        timer.data_arrived()
        timer.step_done()
    means = timer.per_step()
    assert means == {"seconds_per_step": 6.5, "seconds_waiting_for_data": 2.0}
    assert timer.per_step() == means
    timer.reset()
    assert timer.per_step() == {"seconds_per_step": 0.0, "seconds_waiting_for_data": 0.0}


def test_a_time_on_another_day_has_a_date():
    assert re.fullmatch(r"\d\d:\d\d", clock_time(0))
    assert clock_time(3 * 86_400).startswith(f"{datetime.now() + timedelta(days=3):%Y-%m-%d} ")
    assert duration(3 * 86_400 + 61) == "3 days, 0:01:01"


def test_peak_memory_is_that_of_this_process():
    gibibytes = float(peak_memory(CPU).removesuffix(" GiB"))
    assert 0.1 <= gibibytes < 64  # torch alone takes more than the first
