import csv
from pathlib import Path

import pytest
from benchmarks.evidence_tables import Table, fill_page, markdown, measure_row, read_csv, records, tables_in

from equigrad.analysis.history import CategoryResult, Evaluation
from equigrad.evaluation.tables import write_table
from scripts import ROOT, run_script

PAGES = sorted(file.with_suffix(".md") for file in (ROOT / "docs" / "evidence").glob("*.csv"))


def write_rows(folder: Path, method: str, gain: float) -> None:
    """Three seeds of eight categories."""
    for seed in range(3):
        values = [0.5 + gain + 0.01 * seed + 0.02 * category for category in range(8)]
        categories = tuple(
            CategoryResult(f"category {index}", 200, {"accuracy": value}, "Many", 10)
            for index, value in enumerate(values)
        )
        mean = sum(values) / len(values)
        result = {"Overall": mean, "mean_class_accuracy": mean, "Many": mean}
        row = Evaluation(result, categories)
        measure_row(folder, method, seed, lambda row=row: (row, 0.25))


@pytest.fixture
def found(tmp_path):
    write_rows(tmp_path, "plain", 0.0)
    write_rows(tmp_path, "better, surely", 0.1)
    table = Table("made", "classification", {"plain": "plain", "better, surely": "plain"})
    write_table(records(table, tmp_path, 3), tmp_path / "page.csv")
    return read_csv(tmp_path / "page.csv")


def test_a_method_stands_beside_its_difference_from_another(found):
    rows = [line.strip("| ").split(" | ") for line in markdown(found["made"]).splitlines()]
    assert rows[0] == ["method", "against", "category mean", "many", "G"]
    assert rows[2] == ["plain", "–", "58.0", "58.0", "0.25"]
    assert rows[3][:2] == ["better, surely", "plain"]
    assert rows[3][2] == "68.0 (**+10.0 ± 0.0**)"


def test_a_row_is_measured_once(tmp_path):
    write_rows(tmp_path, "plain", 0.0)

    def fail() -> tuple[Evaluation, None]:
        raise AssertionError("measured again")

    measure_row(tmp_path, "plain", 0, fail)


def test_a_page_is_filled_between_its_marks(found, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- table: made -->\nold\n<!-- end -->\nAfter.\n")
    fill_page(page, found)
    fill_page(page, found)
    assert tables_in(page) == {"made": markdown(found["made"])}
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")


def test_a_page_without_the_mark_of_a_table_is_refused(found, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="no line <!-- table: made -->"):
        fill_page(page, found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tables_of_an_evidence_page_are_those_of_its_csv_file(page):
    tables = {name: markdown(rows) for name, rows in read_csv(page.with_suffix(".csv")).items()}
    assert tables_in(page) == tables


@pytest.mark.parametrize(
    ("script", "table"), [("class_counts", "places_lt"), ("confounds", "drift"), ("confounds", "easy_negatives")]
)
def test_a_simulation_is_run_again_in_a_few_steps(script, table, tmp_path):
    arguments = ("--steps", 2, "--seeds", 2, "--tables", table, "--folder", tmp_path)
    finished = run_script(f"benchmarks/{script}.py", *arguments)
    assert finished.returncode == 0, finished.stderr
    with (tmp_path / "tables.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    committed = read_csv(ROOT / "docs" / "evidence" / f"{script}.csv")[table]
    known = {(row["method"], row["against"], row["column"]) for row in committed}
    assert rows
    assert {(row["method"], row["against"], row["column"]) for row in rows} <= known
