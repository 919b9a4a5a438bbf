"""`equigrad table`: the paper's tables, published beside ours."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.commands.exit_codes import STOPPED
from equigrad.commands.parser import positive
from equigrad.errors import UsageError
from equigrad.recipes.names import TABLE_NAMES, check_table_name

if TYPE_CHECKING:
    from equigrad.analysis.paper_table import ResultRow
    from equigrad.recipes.table_rows import TableRow
    from equigrad.tasks.paper_tables.planning import PlannedRun


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad table [NAME]`."""
    parser = commands.add_parser(
        "table",
        help="make a table of the paper with our numbers; without NAME, list all tables",
        description="Train the missing rows of a table of the paper, and write it as Markdown, CSV and a page. "
        "If it is stopped, the same command continues; rows that tables share are trained once.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="label of the table in the paper, or `all`")
    parser.add_argument(
        "--scale",
        choices=("mini", "full"),
        default="mini",
        help="generated glyphs on a CPU, or the paper's data and models",
    )
    parser.add_argument("--seeds", type=positive, default=1, metavar="N", help="number of trainings per row (1)")
    parser.add_argument("--rows", metavar="LABEL,…", help="only rows with these labels or methods")
    parser.add_argument("--jobs", type=positive, metavar="N", help="parallel trainings; mini: one per core")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=value", help="change a setting of all rows, such as paths"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/tables"), help="where runs and tables are written (runs/tables)"
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where tables are written (beside the runs)")
    parser.add_argument(
        "--merge",
        type=Path,
        metavar="FOLDER",
        help="also count the runs in the tables there (their CSV files)",
    )
    parser.add_argument("--collate", action="store_true", help="train nothing, write the table of the finished runs")
    parser.add_argument("--dry-run", action="store_true", help="only say what is needed and how long it takes")
    parser.set_defaults(function=table)


def table(parsed: argparse.Namespace, command: Sequence[str]) -> int | None:
    """Train the missing rows and write the tables, or list all tables."""
    if parsed.name not in (None, "all"):
        check_table_name(parsed.name)  # before torch is imported, which takes seconds
    from equigrad.recipes.table_rows import rows_of_table
    from equigrad.tasks.paper_tables.planning import in_order
    from equigrad.tasks.paper_tables.running import train_missing
    from equigrad.tasks.paper_tables.written_results import written_results

    if parsed.name is None:
        _list(parsed.folder)
        return None
    names = TABLE_NAMES if parsed.name == "all" else (parsed.name,)
    rows = {name: _chosen(rows_of_table(name), parsed.rows) for name in names}
    plan = {row: _runs(row, parsed.scale, parsed.seeds, parsed.set) for members in rows.values() for row in members}
    elsewhere = {} if parsed.merge is None else written_results(parsed.merge, names)
    # All rows with one seed before the next: a stopped table is whole for the first seeds.
    wanted = [found[seed] for seed in range(parsed.seeds) for found in plan.values()]
    runs = in_order([run for run in wanted if run.name not in elsewhere])
    folder = parsed.folder / parsed.scale
    _announce(parsed, runs, folder, num_elsewhere=len({run.name for run in wanted} & elsewhere.keys()))
    if parsed.dry_run:
        return None
    failures: dict[str, str] = {}
    if not parsed.collate:
        labels = _labels(plan)
        jobs = parsed.jobs or (os.cpu_count() or 1 if parsed.scale == "mini" else 1)
        outcome = train_missing(runs, folder / "runs", jobs=jobs, command=command, labels=labels)
        if outcome.stopped:
            print("equigrad: stopped; the same command continues", file=sys.stderr)
            return STOPPED
        failures = outcome.failures
    _write(parsed, rows, plan, elsewhere)
    if failures:
        raise ValueError(f"{len(failures)} of {len(runs)} runs failed; their logs are in {folder / 'runs'}")
    return None


def _write(
    parsed: argparse.Namespace,
    rows: "Mapping[str, Sequence[TableRow]]",
    plan: "Mapping[TableRow, Sequence[PlannedRun]]",
    elsewhere: Mapping[str, Mapping[str, float]],
) -> None:
    """Write every table from the runs that are there, and print it."""
    from equigrad.commands.version import versions
    from equigrad.tasks.paper_tables.output import TableOutput

    folder = parsed.folder / parsed.scale
    output = TableOutput(parsed.output or folder, parsed.scale, _repeated(parsed), versions())
    results = {
        name: [_result(row, plan[row], folder / "runs", elsewhere) for row in members] for name, members in rows.items()
    }
    for name, members in results.items():
        print(output.write(name, members))
    if len(results) > 1:
        print(output.write_summary(results))


def _chosen(rows: "Sequence[TableRow]", text: str | None) -> "list[TableRow]":
    if text is None:
        return list(rows)
    from equigrad.settings import nearest

    known = list(dict.fromkeys(name for row in rows for name in (row.label, row.recipe.method)))
    words = _split(text, known)
    for word in words:
        if word not in known:
            labels = "; ".join(dict.fromkeys(row.label for row in rows))
            raise UsageError(f"--rows {word}: no such row; the table has {labels}{nearest(word, known)}")
    return [row for row in rows if row.label in words or row.recipe.method in words]


def _split(text: str, known: Sequence[str]) -> list[str]:
    """The words between commas; some labels have a comma themselves."""
    words: list[str] = []
    parts = text.split(",")
    while parts:
        joined = (",".join(parts[:length]).strip() for length in range(len(parts), 0, -1))
        word = next((word for word in joined if word in known), parts[0].strip())
        words.append(word)
        parts = parts[word.count(",") + 1 :]
    return words


def _runs(row: "TableRow", scale: str, num_seeds: int, assignments: Sequence[str]) -> "list[PlannedRun]":
    from equigrad.tasks.paper_tables.planning import Wanted, planned_run

    start = None if row.start is None else row.start.at_scale(scale, assignments)
    wanted = Wanted(row.recipe.at_scale(scale, assignments), start, row.is_reading)
    return [planned_run(wanted, seed) for seed in range(num_seeds)]


def _announce(parsed: argparse.Namespace, runs: "Sequence[PlannedRun]", folder: Path, *, num_elsewhere: int) -> None:
    """What is there, what is to be trained, and how long that takes at the most; at full scale what it needs."""
    missing = [run for run in runs if not run.is_finished(folder / "runs")]
    there = f"{len(runs)} runs, {len(runs) - len(missing)} of them are there"
    more = f"; {num_elsewhere} more are in {parsed.merge}" if num_elsewhere else ""
    print(f"{parsed.name}, {parsed.scale}: {there}{more}", flush=True)
    if not missing or parsed.collate:
        return
    if parsed.scale == "mini":
        print(f"{len(missing)} to train, at most two minutes of one core each", flush=True)
        return
    from equigrad.tasks.paper_tables.requirements import PEAK_FLOPS, UTILISATION, needs_of

    needs = needs_of(missing)
    for path, setting in needs.files.items():
        remedy = f"  (missing; name yours with --set {setting}=PATH)" if path in needs.missing else ""
        print(f"  {setting}: {path}{remedy}")
    weights = [f"{name} (missing)" if Path(name) in needs.missing else name for name in needs.weights]
    print(f"  weights: {', '.join(weights) or 'none, from scratch'}")
    sustained = f"{PEAK_FLOPS * UTILISATION / 1e12:.0f} TFLOP/s ({UTILISATION:.0%} of an A100 with TF32)"
    print(f"  about {needs.gpu_hours:,.0f} GPU hours by arithmetic: backbones alone, at {sustained}")
    for line in needs.arithmetic:
        print(f"    {line}")
    if needs.missing and not parsed.dry_run:
        raise ValueError(f"{needs.missing[0]}: no such file or folder; --collate writes the table of what is there")


def _labels(plan: "Mapping[TableRow, Sequence[PlannedRun]]") -> dict[str, str]:
    """What each run is called while it is trained: the first of its rows."""
    labels: dict[str, str] = {}
    for row, runs in plan.items():
        for seed, run in enumerate(runs):
            labels.setdefault(run.name, f"{row.full_table}, {row.shown_label}, seed {seed}")
    for row, runs in plan.items():
        for seed, run in enumerate(runs):
            if run.start is not None:
                labels.setdefault(run.start.name, f"{row.full_table}, first stage of {row.shown_label}, seed {seed}")
    return labels


def _result(
    row: "TableRow", runs: "Sequence[PlannedRun]", folder: Path, elsewhere: "Mapping[str, Mapping[str, float]]"
) -> "ResultRow":
    from equigrad.analysis.evaluation_file import Evaluation
    from equigrad.analysis.paper_table import ResultRow

    results: dict[int, Mapping[str, float | None]] = {}
    for seed, run in enumerate(runs):
        if run.is_finished(folder):
            results[seed] = Evaluation.load(folder / run.name).result
        elif run.name in elsewhere:
            results[seed] = elsewhere[run.name]
    name = runs[0].name.rpartition("_")[0]
    return ResultRow(row.variant, row.shown_label, row.published, results, name, is_compared=row.is_first)


def _repeated(parsed: argparse.Namespace) -> list[str]:
    """The options that decide what is in a table."""
    options = [] if parsed.scale == "mini" else ["--scale", parsed.scale]
    options += [] if parsed.seeds == 1 else ["--seeds", str(parsed.seeds)]
    options += [] if parsed.rows is None else ["--rows", parsed.rows]
    return options + [word for assignment in parsed.set for word in ("--set", assignment)]


def _list(folder: Path) -> None:
    """All tables with the number of their rows and how many of them are there, at both scales."""
    from equigrad.recipes.table_rows import rows_of_table

    width = max(map(len, TABLE_NAMES))
    print(f"{'table':{width}}  rows   mini   full")
    for name in TABLE_NAMES:
        rows = rows_of_table(name)
        counts = []
        for scale in ("mini", "full"):
            runs = [_runs(row, scale, 1, [])[0] for row in rows]
            counts.append(sum(run.is_finished(folder / scale / "runs") for run in runs))
        print(f"{name:{width}}  {len(rows):4}   {counts[0]:4}   {counts[1]:4}")
    print("\nequigrad table NAME trains and writes one, equigrad table all every one of them")
