import re
from pathlib import Path

import pytest

from equigrad import run_files
from equigrad.run_files import checkpoint_file, checkpoint_files, step_in_name

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"


def test_the_documented_run_folder_has_these_files():
    table = PAGE.read_text().split("A run folder contains")[1].split("\n\n")[1]
    documented = {
        name.rstrip("/") for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    names = {str(value) for name, value in vars(run_files).items() if name.isupper()}
    assert documented
    assert documented <= names


def test_the_name_of_a_checkpoint_states_its_step(tmp_path):
    files = [checkpoint_file(tmp_path, step) for step in (0, 250, 123_456_789)]
    files[0].parent.mkdir()
    for file in files:
        file.touch()
    assert checkpoint_files(tmp_path) == files
    assert [step_in_name(file) for file in files] == [0, 250, 123_456_789]


@pytest.mark.parametrize("name", ["step_", "step_x", "step_-1", "step_1_0", "step_٣", f"step_{'9' * 16}"])
def test_a_name_that_no_run_gives_states_no_step(name):
    assert step_in_name(Path(f"{name}.pt")) is None
