"""The tables that are kept in docs/evidence: what their CSV files say is what the pages say."""

import csv
import re
from pathlib import Path

import pytest

from equigrad.analysis.compared_tables import as_markdown
from equigrad.analysis.paper_table import ResultRow, agreement, columns_of, paper_table, variants_of
from equigrad.recipes.names import TABLE_NAMES

EVIDENCE = Path(__file__).parents[1] / "docs/evidence"
TABLES = EVIDENCE / "tables"
NUMBER = r"[+−]?\d+\.\d\b"


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


@pytest.fixture
def claims(capsys, monkeypatch):
    """What the example prints about the tables."""
    monkeypatch.syspath_prepend(str(EVIDENCE.parents[1] / "examples"))
    import paper_claims

    paper_claims.main([str(TABLES)])
    return capsys.readouterr().out.strip()


def test_the_claims_are_those_of_the_csv_files(claims):
    assert claims in (EVIDENCE / "README.md").read_text(encoding="utf-8")


def test_the_numbers_of_the_short_table_are_those_of_the_claims(claims):
    page = (EVIDENCE / "README.md").read_text(encoding="utf-8")
    short = page.partition("## What holds")[2].partition("<details>")[0]
    linked = re.findall(r"\[([^]]+)\]\(tables/(\w+)\.md\)", short)
    assert linked
    for text, name in linked:
        lines = [line for line in claims.splitlines() if line.startswith(f"| [{name}]")]
        ours = {number for line in lines for number in re.findall(NUMBER, line.split(" | ")[3])}
        assert set(re.findall(NUMBER, text)) <= ours, name


def test_the_counts_of_the_page_are_those_of_the_claims(claims):
    counts = {name: number for number, name in re.findall(r"(\d+) ([a-z ]+)", claims.splitlines()[-3])}
    page = " ".join((EVIDENCE / "README.md").read_text(encoding="utf-8").split())
    expected = (
        "Of {claims} comparisons that the paper's text makes, {holds} hold here, {weakly} hold weakly, {no difference} "
        "show no difference at this scale, {reversed weakly} is weakly reversed and {does not hold} do not hold. "
        "For {too few seeds} there are too few seeds to say."
    )
    assert expected.format_map(counts) in page
