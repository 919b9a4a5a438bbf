"""SECURITY.md: each promise names the test that shows it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text()


def test_every_promise_names_a_test_that_exists():
    promises = PAGE.partition("## What is never trusted")[2].partition("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "what holds" not in line]
    assert len(rows) > 15
    for row in rows:
        file, _, test = re.search(r"`(tests/[^`]+)` \|$", row)[1].partition("::")
        assert f"def {test}" in (ROOT / file).read_text(), row
