"""Runs simulations of last layers, keeps their rows, and makes the tables of a page."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import torch
from evidence_tables import MEASURES, Record, Table, fill_page, finished_seeds, markdown, measure_row, read_csv, records
from made_features import Drawn, Mixture
from simulated_heads import Head, measure

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.evaluation.tables import write_table


@dataclass(frozen=True)
class Simulation:
    """Heads on one mixture.

    Args:
        mixture: of the data.
        heads: what is trained, by name.
        against: which head each is compared with; the others are baselines.
        drawn: how samples are drawn.
    """

    mixture: Mixture
    heads: Mapping[str, Head]
    against: Mapping[str, str]
    drawn: Callable[[Mixture, int], Drawn] = Drawn

    def table(self, name: str) -> Table:
        return Table(name, self.mixture.task, {head: self.against.get(head, head) for head in self.heads})


def run(name: str, simulation: Simulation, folder: Path, num_seeds: int, steps: int | None = None) -> None:
    """Measure the rows that are missing."""
    mixture = simulation.mixture if steps is None else replace(simulation.mixture, steps=steps)
    for seed in range(num_seeds):
        for method, head in simulation.heads.items():
            measure_row(folder, method, seed, lambda head=head, seed=seed: _measured(simulation, mixture, head, seed))  # type: ignore[misc]
            print(f"{name}: {method}, seed {seed}", flush=True)


def _measured(simulation: Simulation, mixture: Mixture, head: Head, seed: int) -> tuple[Evaluation, float | None]:
    return measure(head, simulation.drawn(mixture, seed), seed)


def main(
    description: str | None,
    folder: Path,
    simulations: Mapping[str, Simulation] = MappingProxyType({}),
    compared: Sequence[Table] = (),
) -> None:
    """Measure, write `tables.csv`, print the tables and, if asked, fill a page with them.

    Args:
        description: of the command.
        folder: for rows and tables.
        simulations: by name of their table.
        compared: tables of comparisons that `equigrad compare` has made.
    """
    tables = {table.name: table for table in compared}
    tables = {name: simulation.table(name) for name, simulation in simulations.items()} | tables
    arguments = _parsed(description, folder, list(tables))
    torch.set_num_threads(1)
    file = arguments.folder / "tables.csv" if arguments.page is None else arguments.page.with_suffix(".csv")
    found: dict[str, Sequence[Mapping[str, str | float]]] = {}
    for name in arguments.tables:
        rows = arguments.compared / tables[name].data if tables[name].data else arguments.folder / name
        if name in simulations and not arguments.collate:
            run(name, simulations[name], rows, arguments.seeds, arguments.steps)
        num_seeds = finished_seeds(tables[name], rows, arguments.seeds)
        if num_seeds > 0:
            found[name] = records(tables[name], rows, num_seeds)
        else:
            print(f"{name}: no seed of all its methods is in {rows}")
    if arguments.page is not None and file.exists():
        found = {name: _numbers(rows) for name, rows in read_csv(file).items()} | found
    write_table([record for name in tables for record in found.get(name, ())], file)
    filled = read_csv(file)
    for name, shown in filled.items():
        print(f"\n{name}\n\n{markdown(shown)}")
    if arguments.page is not None:
        fill_page(arguments.page, filled)


def _numbers(rows: Sequence[Record]) -> list[dict[str, str | float]]:
    """Records of a CSV file as they were before they were written."""
    return [record | {name: float(record[name] or "nan") for name in MEASURES} for record in rows]


def _parsed(description: str | None, folder: Path, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=folder, help="for rows and tables.csv")
    parser.add_argument("--compared", type=Path, default=Path("runs/compared"), help="folder of finished comparisons")
    parser.add_argument("--tables", nargs="+", default=names, choices=names, metavar="NAME", help="only these")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of each training; another number needs another folder")
    parser.add_argument("--collate", action="store_true", help="run nothing, make tables of what is there")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="put the tables into this page and its CSV file")
    return parser.parse_args()
