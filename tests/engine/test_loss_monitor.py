import math

import pytest
import torch

from equigrad.engine.loss_monitor import LossMonitor


def losses(**values):
    return {name: torch.tensor(value) for name, value in values.items()}


def sample_name(index):
    return f"image_{index}.png"


@pytest.fixture
def monitor():
    """With the losses of two batches."""
    monitor = LossMonitor()
    monitor.add(1, losses(classes=1.0, boxes=0.5), [4, 7])
    monitor.add(2, losses(classes=4.0, boxes=0.0), [2, 9])
    return monitor


def test_means_are_those_since_the_last_line_of_the_log(monitor):
    assert monitor.means() == {"classes": 2.5, "boxes": 0.25}
    monitor.add(3, losses(classes=8.0, boxes=1.0), [1])
    assert monitor.means() == {"classes": 8.0, "boxes": 1.0}


def test_losses_in_half_precision_are_summed_in_single():
    monitor = LossMonitor()
    for step in range(300):  # in bf16 a sum stops growing at 256
        monitor.add(step, {"classes": torch.tensor(1.0, dtype=torch.bfloat16)}, [step])
    assert monitor.means() == {"classes": 1.0}


def test_finite_losses_raise_no_alarm(monitor):
    assert monitor.alarm(sample_name) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_alarm_names_loss_step_and_samples_of_the_first_broken_batch(monitor, value):
    monitor.add(3, losses(classes=1.0, boxes=value), [5, 6])
    monitor.add(4, losses(classes=math.nan, boxes=math.nan), [8])
    assert monitor.alarm(sample_name) == f"loss boxes is {value} at step 3; batch: image_5.png, image_6.png"


def test_all_broken_losses_of_the_batch_are_named(monitor):
    monitor.add(3, losses(classes=math.inf, boxes=-math.inf), [5])
    assert monitor.alarm(sample_name) == "loss classes is inf, boxes is -inf at step 3; batch: image_5.png"


def test_an_alarm_is_raised_once(monitor):
    monitor.add(3, losses(classes=math.nan, boxes=1.0), [5])
    assert monitor.alarm(sample_name) is not None
    monitor.add(4, losses(classes=1.0, boxes=1.0), [6])
    assert monitor.alarm(sample_name) is None


def test_finite_losses_whose_sum_overflows_raise_no_alarm():
    monitor = LossMonitor()
    monitor.add(1, losses(classes=3e38, boxes=3e38), [0])
    assert monitor.alarm(sample_name) is None


def test_of_a_large_batch_the_first_samples_are_named_and_the_others_counted():
    monitor = LossMonitor()
    monitor.add(1, losses(classes=math.nan), list(range(40)))
    alarm = monitor.alarm(sample_name)
    assert alarm.count(".png") == 32
    assert alarm.endswith("image_31.png and 8 more")


def test_a_monitor_with_the_state_of_another_gives_the_same_means(monitor):
    resumed = LossMonitor()
    resumed.load_state_dict(monitor.state_dict(), torch.device("cpu"))
    for each in (monitor, resumed):
        each.add(3, losses(classes=2.5, boxes=1.0), [1])
    assert resumed.means() == monitor.means() == {"classes": 2.5, "boxes": 0.5}


def test_a_state_does_not_change_with_the_monitor(monitor):
    state = monitor.state_dict()
    monitor.add(3, losses(classes=2.5, boxes=1.0), [1])
    assert state == {"sums": {"classes": torch.tensor(5.0), "boxes": torch.tensor(0.5)}, "count": 2}
