import io

import pytest
from rich.console import Console

from equigrad.engine.reporting.progress import LiveProgress, PlainProgress, make_progress, summary

VALUES = {
    "step": 100,
    "epoch": 2.5,
    "seconds_per_step": 0.5,
    "loss": 1.25,
    "losses": {"classification": 1.0, "box": 0.25},
    "lr": 0.02,
    "tail_ratio": 0.12,
    "head_ratio": 0.953,
    "skipped": 3,
    "evaluation": {"AP": 0.2551},
}


def test_the_summary_has_rate_time_left_losses_rate_ratios_and_metrics():
    assert summary(VALUES, total=220) == (
        "epoch 2.50  2 steps/s  0:01:00 left  loss 1.25  (classification 1, box 0.25)  lr 0.02  "
        "tail/head ratio 0.12/0.95  3 skipped  AP 25.5"
    )


def test_of_many_metrics_the_summary_has_the_first_ones():
    metrics = dict.fromkeys(("AP", "AP50", "AP75", "APs", "APm", "APl"), 0.5)
    assert summary(VALUES | {"evaluation": metrics}, total=220).endswith("AP 50.0  AP50 50.0  AP75 50.0  APs 50.0")


def test_output_that_is_not_a_terminal_gets_plain_lines(capsys):
    progress = make_progress(220, 0, is_first_rank=True)
    assert type(progress) is PlainProgress
    progress.report(VALUES)
    progress.say("a message")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("step 100/220  epoch 2.50")
    assert second == "a message"


def test_only_the_first_rank_speaks(capsys):
    progress = make_progress(220, 0, is_first_rank=False)
    progress.report(VALUES)
    progress.say("a message")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["warning: cannot read [odd] name.png", "plain"])
def test_a_terminal_gets_a_bar_and_messages_above_it(text):
    stream = io.StringIO()
    progress = LiveProgress(220, 0, Console(file=stream, force_terminal=True, width=60))
    progress.advance(50)
    progress.report(VALUES)
    progress.say(text)
    progress.close()
    shown = " ".join(stream.getvalue().split())  # a narrow terminal wraps the numbers, and shows all of them
    assert "step 100/220" in shown
    assert "lr 0.02 tail/head ratio 0.12/0.95 3 skipped AP 25.5" in shown
    assert text in shown


def test_the_name_of_a_file_cannot_move_the_terminal(capsys):
    make_progress(1, 0, is_first_rank=True).say("warning: cannot read a\x1b[2J\nb.png, skipped")
    assert capsys.readouterr().out == "warning: cannot read a\\x1b[2J\\nb.png, skipped\n"
