from analysis.run_folders import recipe, write_run
from analysis.test_findings import words
from equigrad.analysis.comparison import compare
from equigrad.analysis.history import RunHistory
from equigrad.analysis.provenance import command_lists, settings_tables


def compared(tmp_path, *recipes):
    folders = [write_run(tmp_path / f"run{number}", recipe=content) for number, content in enumerate(recipes)]
    return compare([RunHistory.load(folder) for folder in folders])


def test_settings_that_differ_come_first_by_dotted_name(tmp_path):
    text = words(settings_tables(compared(tmp_path, recipe("BCE"), recipe("Sigmoid-EQL"))))
    assert text.startswith("Settings that differ between the runs setting run0 run1 loss.type BCE Sigmoid-EQL All")
    assert "batch_size 8" in text
    assert "torch 2.9.0 2.9.0" in text


def test_equal_settings_are_said_to_be_equal(tmp_path):
    assert "All settings are the same" in settings_tables(compared(tmp_path, recipe(), recipe()))


def test_what_the_last_log_line_says_is_shown(tmp_path):
    text = words(settings_tables(compared(tmp_path, recipe())))
    assert "run0 100 1 20.0 ms 2026-01-02T03:04:05+0000" in text


def test_a_recipe_with_hardly_anything_in_it_is_shown(tmp_path):
    text = words(settings_tables(compared(tmp_path, {})))
    assert "Settings of run0" in text
    assert "not recorded" in command_lists(compared(tmp_path / "again", {}), ["x"])


def test_commands_can_be_pasted_into_a_shell(tmp_path):
    starts = [{"command": ["equigrad", "train", "a b"]}, {"command": ["equigrad", "train", "a b", "--resume"]}]
    text = command_lists(compared(tmp_path, recipe(starts=starts)), ["equigrad", "report", "my run"])
    assert "equigrad train &#x27;a b&#x27;\nequigrad train &#x27;a b&#x27; --resume" in text
    assert "equigrad report &#x27;my run&#x27;" in text
