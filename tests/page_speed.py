"""Size of a page of many categories, and how long it takes: `make page-speed`, the table of docs/page.md."""

import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from analysis.report.many_categories import many_runs
from browser import visit
from equigrad.analysis.report import write_report

_QUESTION = """
    const measured = (act) => { const start = performance.now(); act(); return performance.now() - start; };
    const set = (id, value) => {
      const box = document.getElementById(id);
      box.value = value;
      box.dispatchEvent(new Event("input"));
    };
    const loaded = performance.timing.loadEventEnd - performance.timing.navigationStart;
    const heading = document.querySelector("#category-table thead tr:last-child th:nth-child(5) button");
    const acts = [() => set("won-step", 0), () => set("filter", "1"), () => heading.click()];
    return [loaded, ...acts.map(measured)];
"""


def main() -> None:
    for num_classes in (1203, 8142):
        with tempfile.TemporaryDirectory() as folder:
            names = [f"category {number}" for number in range(num_classes)]
            counts = 1000 // (1 + np.arange(num_classes)) + 2
            page = write_report(list(many_runs(Path(folder), names, counts)), Path(folder, "report.html"))
            times = [visit(page, _QUESTION).answer for _ in range(5)]
            shown = " | ".join(f"{median(column):,.0f} ms" for column in zip(*times, strict=True))
            print(f"| {num_classes:,} | {page.stat().st_size / 1e6:.1f} MB | {shown} |")


if __name__ == "__main__":
    main()
