import re
from pathlib import Path

from equigrad import run_files

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"


def test_the_documented_run_folder_has_these_files():
    table = PAGE.read_text().split("A run folder holds")[1].split("\n\n")[1]
    documented = {
        name.rstrip("/") for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    names = {str(value) for name, value in vars(run_files).items() if name.isupper()}
    assert documented
    assert documented <= names
