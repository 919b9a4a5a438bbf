"""Which claims of the paper about its tables hold in small tables.

    equigrad table all --output docs/evidence/tables
    python examples/paper_claims.py docs/evidence/tables

A claim is that one row is better than another in one column. It holds if our difference has the same sign and is more
than twice its standard error, weakly if it is more than once. Within one standard error there is no difference. With
the other sign it is reversed weakly, or does not hold. A claim that two rows are equal can only fail to be refuted:
within two standard errors there is no difference. The standard error comes from the rows of the same kind of table that
have several seeds; with one seed each it is that of two runs.

The last line is the share of the objectness branch in what Sigmoid-EQL gains.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

KINDS = {
    "classification": ("imagenet_lt", "place_Lt", "inat"),
    "segmentation": ("ade20k_lt_results", "ade20k_results"),
    "one-stage": ("ablation_study_components", "s_effect", "one_stage_with_efl", "yolox_results", "coco_results"),
    "two-stage": ("comparison_sota_lvis1", "component_analysis", "mapping_func", "compare_e2e_decouple", "better_repr"),
}
"""Tables whose runs vary alike from seed to seed; those not named here have rows of both kinds of detectors."""

FEW_POINTS = 3.0
"""A smaller difference needs more seeds."""

ENOUGH_SEEDS = 3
"""Of each row."""


@dataclass(frozen=True)
class Claim:
    """Of one table and variant: `better` is above `worse` in `column`; with `is_equal`, the two are about the same."""

    table: str
    variant: str
    better: str
    worse: str
    column: str
    is_equal: bool = False


class Difference(NamedTuple):
    """Between the two rows of a claim, in points: in the paper, ours, and the standard error of ours."""

    published: float
    ours: float
    error: float
    num_seeds: int  # of the row that has fewer

    def __str__(self) -> str:
        return f"{_signed(self.ours)} ± {self.error:.1f}"


def _claims() -> Iterator[Claim]:
    lvis = ("comparison_sota_lvis1", "R50 Mask R-CNN")
    for worse in ("CE baseline", "Grad-Blocking", "RFS", "BAGS", "Seesaw Loss"):
        yield Claim(*lvis, "Sigmoid-EQL", worse, "AP")
    yield Claim(*lvis, "Softmax-EQL", "CE baseline", "AP")
    yield Claim(*lvis, "Softmax-EQL", "Seesaw Loss", "AP")
    parts = ("component_analysis", "")
    yield Claim(*parts, "obj", "none", "AP")
    yield Claim(*parts, "obj neg", "obj", "APr")
    yield Claim(*parts, "obj neg pos", "obj neg", "APr")
    yield Claim(*parts, "obj neg pos", "obj pos", "APr")
    yield Claim(*parts, "obj neg pos", "none", "AP")
    for column in ("AP", "APr"):
        for worse in ("sqrt, neg pos", "linear, neg pos", "exp, neg pos"):
            yield Claim("mapping_func", "", "sigmoid-like, neg pos", worse, column)
    for worse in ("LWS", "cRT", "BAGS"):
        yield Claim("compare_e2e_decouple", "", worse, "CE", "AP")
    for worse in ("LWS", "cRT", "BAGS"):
        yield Claim("compare_e2e_decouple", "", "Sigmoid-EQL", worse, "AP")
    for method in ("cRT", "LWS", "BAGS"):
        yield Claim("better_repr", "", f"{method}, EQL", method, "AP")
    for worse in ("Faster R-CNN", "Grad-Blocking"):
        for column in ("AP", "AP1"):
            yield Claim("openimage", "R50", "Sigmoid-EQL", worse, column)
    for column in ("AP", "APr"):
        yield Claim("main_results", "ResNet-50, one-stage", "EFL", "Baseline†", column)
    yield Claim("ablation_study_components", "", "WF", "none", "AP")
    yield Claim("ablation_study_components", "", "FF", "none", "APr")
    yield Claim("ablation_study_components", "", "WF FF", "none", "AP")
    yield Claim("ablation_study_components", "", "WF FF", "none", "APr")
    for scale in ("s=1", "s=2", "s=4", "s=8", "s=12"):
        yield Claim("s_effect", "", scale, "s=0", "AP")
    for detector in ("FCOS*", "PAA", "ATSS", "Baseline†"):
        for worse in ("FL", "FL+EQL"):
            yield Claim("one_stage_with_efl", detector, "EFL", worse, "APr")
    for better, worse in (("EFL", "FL"), ("EQFL", "QFL")):
        for column in ("AP", "APr"):
            yield Claim("yolox_results", "medium", better, worse, column)
    yield Claim("oid_results", "R50, one-stage", "Baseline†", "RetinaNet", "AP")
    for column in ("AP", "AP1"):
        yield Claim("oid_results", "R50, one-stage", "EFL", "Baseline†", column)
    for scale in (2, 4, 8):
        yield Claim("coco_results", "", f"EFL(s={scale})", "FL", "AP", is_equal=True)
    for table, variant in (("imagenet_lt", "ResNet-50"), ("place_Lt", "ResNet-152"), ("inat", "ResNet-50")):
        for worse in ("CE", "Balanced Softmax", "Logit Adjustment", "LADE", "Seesaw Loss", "cRT", "LWS", "DisAlign"):
            yield Claim(table, variant, "Softmax-EQL", worse, "Overall")
        yield Claim(table, variant, "Sigmoid-EQL", "BCE", "Few")
        yield Claim(table, variant, "Softmax-EQL", "Sigmoid-EQL", "Overall")
    yield Claim("inat", "ResNet-50", "DIVE-Softmax-EQL", "DIVE", "Overall")
    for table in ("ade20k_lt_results", "ade20k_results"):
        for model in ("PSPNet, R50", "DeepLabV3+, R50"):
            for column in ("mIoU", "mAcc"):
                yield Claim(table, model, "Softmax-EQL", "CE", column)
                yield Claim(table, model, "Sigmoid-EQL", "BCE", column)
    yield Claim("ade20k_lt_results", "PSPNet, R50", "CE", "BCE", "mIoU")


class Tables:
    """The CSV files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.records = {file.stem: _records(file) for file in sorted(folder.glob("*.csv"))}

    def values(self, claim: Claim, row: str) -> list[float]:
        """Of a row, one for each seed; in per cent."""
        return [
            float(record[f"ours_{claim.column}"])
            for record in self.records.get(claim.table, [])
            if (record["variant"], record["row"]) == (claim.variant, row) and record[f"ours_{claim.column}"]
        ]

    def difference(self, claim: Claim) -> Difference | None:
        """Of a claim; None without results of both rows."""
        better, worse = self.values(claim, claim.better), self.values(claim, claim.worse)
        if not better or not worse:
            return None
        error = self.deviation(claim.table, claim.column) * np.sqrt(1 / len(better) + 1 / len(worse))
        published = self._published(claim, claim.better) - self._published(claim, claim.worse)
        num_seeds = min(len(better), len(worse))
        return Difference(published, float(np.mean(better) - np.mean(worse)), float(error), num_seeds)

    def _published(self, claim: Claim, row: str) -> float:
        rows = (r for r in self.records[claim.table] if (r["variant"], r["row"]) == (claim.variant, row))
        return float(next(rows)[f"published_{claim.column}"])

    def deviation(self, table: str, column: str) -> float:
        """Standard deviation of one run, from the rows with several seeds of all tables of the kind."""
        kinds = [names for names in KINDS.values() if table in names]
        names = kinds[0] if kinds else (*KINDS["one-stage"], *KINDS["two-stage"])
        column = {"AP1": "APr"}.get(column, column)
        seeds: dict[str, dict[str, float]] = defaultdict(dict)
        for name in names:
            for record in self.records.get(name, []):
                if record.get(f"ours_{column}"):
                    seeds[record["run"]][record["seed"]] = float(record[f"ours_{column}"])
        squares = [(np.var(list(found.values()), ddof=1), len(found) - 1) for found in seeds.values() if len(found) > 1]
        freedom = sum(count for _, count in squares)
        return float(np.sqrt(sum(square * count for square, count in squares) / freedom)) if freedom else np.nan


def _records(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def verdict(difference: float, error: float, num_seeds: int, *, is_equal: bool = False) -> str:
    """In the words of the table."""
    if np.isnan(error):
        return "one seed"
    is_clear = abs(difference) > 2 * error
    if abs(difference) <= error or (is_equal and not is_clear):
        return "no difference"
    if abs(difference) < FEW_POINTS and num_seeds < ENOUGH_SEEDS:
        return "too few seeds"
    if difference > 0 and not is_equal:
        return "holds" if is_clear else "weakly"
    return "does not hold" if is_clear else "reversed weakly"


def claim_rows(tables: Tables, claims: Sequence[Claim]) -> list[list[str]]:
    """A line for each claim whose rows are there."""
    rows = []
    for claim in claims:
        difference = tables.difference(claim)
        if difference is None:
            continue
        sign = "=" if claim.is_equal else ">"
        variant = f" ({claim.variant})" if claim.variant else ""
        rows.append(
            [
                f"[{claim.table}](tables/{claim.table}.md){variant}",
                f"{claim.better} {sign} {claim.worse}, {claim.column}",
                _signed(difference.published),
                str(difference),
                verdict(difference.ours, difference.error, difference.num_seeds, is_equal=claim.is_equal),
            ]
        )
    return rows


def objectness_share(tables: Tables) -> str:
    """What the objectness branch alone gains over BCE, of what Sigmoid-EQL gains with it; empty without the rows."""
    branch = tables.difference(Claim("component_analysis", "", "obj", "none", "AP"))
    whole = tables.difference(Claim("component_analysis", "", "obj neg pos", "none", "AP"))
    if branch is None or whole is None:
        return ""
    shares = [f"{100 * part / total:.0f} %" for part, total in zip(branch[:2], whole[:2], strict=True)]
    paper = f"{_signed(branch.published)} of {_signed(whole.published)} AP in the paper ({shares[0]})"
    return f"\n\nThe objectness branch: {paper}, {branch} of {whole} here ({shares[1]})."


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no negative zero


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """The claims as a table of Markdown."""
    lines = [["table", "claim", "paper", "here ± standard error", "verdict"], ["---"] * 5, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the claims of a folder of tables, and the share of objectness."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of `equigrad table all --output`")
    tables = Tables(parser.parse_args(arguments).folder)
    rows = claim_rows(tables, list(_claims()))
    verdicts = [row[-1] for row in rows]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
    print(f"{as_markdown(rows)}\n\n{len(rows)} claims: {counts}.{objectness_share(tables)}")


if __name__ == "__main__":
    main()
