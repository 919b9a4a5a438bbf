"""`equigrad report`; what is on the page is in `tests/analysis`."""

from commands.running_commands import equigrad


def test_report_writes_one_page(run, tmp_path):
    done = equigrad("report", run, "--output", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert "<html" in (tmp_path / "page.html").read_text()
