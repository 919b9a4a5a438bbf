"""The scripts of the pages of plain torch, Lightning and Accelerate, on two ranks."""

import os
import re
import runpy
from pathlib import Path

import pytest

from quick_processes import run_as_torchrun

PAGES = Path(__file__).parents[2] / "docs" / "integrations"

pytestmark = pytest.mark.integrations


def run_script(file, folder):
    os.chdir(folder)
    runpy.run_path(str(file), run_name="__main__")
    return 0


@pytest.mark.parametrize(
    ("page", "package"), [("ddp_fsdp2", "torch"), ("accelerate", "accelerate"), ("lightning", "lightning")]
)
def test_the_script_of_a_page_runs_on_two_ranks(page, package, tmp_path):
    pytest.importorskip(package, reason=f"needs {package}")
    (script,) = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), flags=re.DOTALL)
    file = tmp_path / "train.py"
    file.write_text(script)
    printed = run_as_torchrun(run_script, file, tmp_path, output=tmp_path / "log.txt")
    assert printed.count("dtype=torch.float64") == 2, printed
