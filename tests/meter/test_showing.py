import json

import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from equigrad import GradientMeter


def trained_meter():
    meter = GradientMeter(3, names=["cat", "dog", "eel"])
    logits = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], requires_grad=True)
    labels = torch.tensor([0, 1])
    meter.watch(logits, labels)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    return meter


def test_the_text_lists_the_categories_with_fewest_wins_first():
    first, *lines, last = str(trained_meter()).splitlines()
    assert first.split() == ["category", "seen", "positive", "negative", "ratio", "wins", "state"]
    assert [line.split()[0] for line in lines] == ["dog", "cat", "eel"]
    assert "0 %  starving, pushed down by cat 100 %" in lines[0]
    assert last == "3 categories: 1 never seen, 1 starving, 1 balanced"


def test_json_has_the_rows_also_in_a_file(tmp_path):
    meter = trained_meter()
    text = meter.to_json(tmp_path / "meter.json")
    rows = json.loads((tmp_path / "meter.json").read_text())
    assert rows == json.loads(text)
    assert rows[1]["category"] == "dog"
    assert rows[2]["ratio"] is not None
    assert rows[2]["recognition"] is None


def test_the_plot_is_a_picture(tmp_path):
    trained_meter().plot(tmp_path / "meter.png")
    assert Image.open(tmp_path / "meter.png").size == (1245, 960)


def test_tensorboard_gets_states_and_medians(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        trained_meter().write_scalars(writer, step=7)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Scalars("meter/starving")[0].value == 1
    assert events.Scalars("meter/recognition_tail")[0].step == 7
    assert "meter/ratio" in events.Tags()["histograms"]


def test_the_text_of_a_meter_that_watched_nothing_says_what_to_call():
    text = "4 categories, nothing watched yet: call watch(logits, labels) before each backward"
    assert str(GradientMeter(4)) == text
