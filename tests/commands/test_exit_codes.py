"""Exit code 3, of a training that was stopped on request; 1 and 2 are in `tests/test_cli.py`."""

from commands.running_commands import SHORT_RUN, equigrad
from equigrad.commands.exit_codes import FAILED, STOPPED, WRONG_USAGE


def test_a_stopped_training_exits_with_3_and_the_resumed_one_with_0(stopping_glyphs, tmp_path):
    words = ["train", "tiny:ce", "--run", tmp_path / "run"]
    stopped = equigrad(*words, settings=SHORT_RUN)
    assert stopped.code == STOPPED == 3, stopped.err
    assert "stopped at step 1 of " in stopped.out
    assert "Overall" not in stopped.out
    stopping_glyphs.undo()
    refused = equigrad(*words, settings=SHORT_RUN)
    assert refused.code == FAILED == 1
    assert "is not empty" in refused.err
    resumed = equigrad(*words, "--resume", settings=SHORT_RUN)
    assert resumed.code == 0, resumed.err
    assert "resuming at step 1 of " in resumed.out
    assert "Overall" in resumed.out.splitlines()[-2]


def test_the_code_of_wrong_usage_is_that_of_the_parser():
    assert equigrad("train", "--fly").code == WRONG_USAGE
