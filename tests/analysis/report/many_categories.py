"""Runs over more categories than a careless page can hold."""

import numpy as np

from analysis.run_folders import predictions, recognition, statistics, write_run


def many_runs(folder, names, counts, num_runs=4):
    """Runs over many categories, with all that a run can record."""
    random = np.random.default_rng(0)
    steps = np.arange(0, 1001, 20)
    labels = random.integers(0, len(names), 3000)
    for number in range(num_runs):
        categories = [
            {"name": name, "count": int(count), "AP": float(value)}
            for name, count, value in zip(names, counts, random.random(len(names)), strict=True)
        ]
        yield write_run(
            folder / f"run{number}",
            statistics=statistics(random.random(len(names)), steps) | recognition(random.random(len(names)), steps),
            evaluation={"result": {"AP": 0.2 + number / 50, "APr": 0.1}, "categories": categories},
            predictions=predictions(labels, random.integers(0, len(names), 3000), random.random(3000)),
        )
