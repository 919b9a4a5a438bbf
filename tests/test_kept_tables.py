"""The tables that are kept in docs/evidence: what their CSV files say is what the pages say."""

import csv
import sys
from pathlib import Path

import pytest

from equigrad.analysis.compared_tables import as_markdown
from equigrad.analysis.paper_table import ResultRow, agreement, columns_of, paper_table, variants_of
from equigrad.recipes.names import TABLE_NAMES

EVIDENCE = Path(__file__).parents[1] / "docs/evidence"
TABLES = EVIDENCE / "tables"


def rows_of(name):
    """The rows of a table as its CSV has them."""
    found = {}
    with (TABLES / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        for record in csv.DictReader(stream):
            key = (record["variant"], record["row"], record["run"], record["compared"] == "1")
            found.setdefault(key, []).append(record)
    return [
        ResultRow(variant, label, _numbers(records[0], "published_"), _results(records), run, is_compared)
        for (variant, label, run, is_compared), records in found.items()
    ]


def _numbers(record, start):
    return {key.removeprefix(start): float(text) for key, text in record.items() if key.startswith(start) and text}


def _results(records):
    results = {int(record["seed"]): _numbers(record, "ours_") for record in records}
    return {seed: {name: value / 100 for name, value in result.items()} for seed, result in results.items()}


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_the_page_of_a_table_has_the_numbers_of_its_csv(name):
    assert as_markdown(paper_table(rows_of(name))) in (TABLES / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_row_of_a_table_was_trained(name):
    assert all(row.results for row in rows_of(name))


def test_the_summary_has_the_rank_agreement_of_the_csv_files():
    text = (TABLES / "README.md").read_text(encoding="utf-8")
    for name in TABLE_NAMES:
        for members in variants_of(rows_of(name)).values():
            taus = ", ".join(f"{column} {agreement(members, column)}" for column in columns_of(members))
            assert taus in text, name


def test_the_claims_are_those_of_the_csv_files(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(EVIDENCE.parents[1] / "examples"))
    import paper_claims

    monkeypatch.setattr(sys, "argv", ["paper_claims.py"])
    paper_claims.main([str(TABLES)])
    printed = capsys.readouterr().out.strip()
    assert printed in (EVIDENCE / "README.md").read_text(encoding="utf-8")
