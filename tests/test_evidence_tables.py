"""The simulated tables of docs/evidence: the pages have the numbers of their CSV files."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["class_counts", "confounds", "advice"])
def test_a_page_of_simulations_has_the_numbers_of_its_csv(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from evidence_tables import markdown, read_csv

    page = ROOT / f"docs/evidence/{name}.md"
    text = page.read_text(encoding="utf-8")
    tables = read_csv(page.with_suffix(".csv"))
    assert tables
    for table, rows in tables.items():
        assert f"<!-- table: {table} -->\n\n{markdown(rows)}\n\n<!-- end -->" in text, table
    assert text.count("<!-- table:") == len(tables)


@pytest.mark.parametrize("name", ["class_counts", "confounds"])
def test_the_summary_of_a_page_has_the_numbers_of_its_csv(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from evidence_summary import rows_of, summary

    page = ROOT / f"docs/evidence/{name}.md"
    rows = rows_of(page.with_suffix(".csv"))
    assert f"<!-- summary -->\n\n{summary(rows)}\n\n<!-- end -->" in page.read_text(encoding="utf-8")
