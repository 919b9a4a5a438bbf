"""Comparisons of classifiers that were never trained."""

import numpy as np

from equigrad.analysis.compared_methods import ComparedMethods
from equigrad.analysis.evaluation_file import CategoryResult, Evaluation

GROUPS = ("Many", "Medium", "Few")


def evaluation(accuracies, names, groups=GROUPS):
    """Of categories that are in turn of each group, with 10 test images each."""
    rows = [
        CategoryResult(name, 300 - number, {"accuracy": float(accuracy)}, groups[number % len(groups)], 10)
        for number, (name, accuracy) in enumerate(zip(names, accuracies, strict=True))
    ]
    result = {"Overall": float(np.mean(accuracies)), "mean_class_accuracy": float(np.mean(accuracies))}
    for group in GROUPS:
        found = [row.metrics["accuracy"] for row in rows if row.group == group]
        result[group] = float(np.mean(found)) if found else None
    return Evaluation(result, tuple(rows))


def compared(gains, *, num_seeds=3, groups=GROUPS, name="category {}"):
    """Methods that gain so much, by group, over the first one, which gains nothing."""
    rng = np.random.default_rng(1)
    plain, names = rng.uniform(0.4, 0.6, 30), [name.format(number) for number in range(30)]
    rows = []
    for gain in gains.values():
        gained = np.array([gain.get(groups[number % len(groups)], 0.0) for number in range(30)])
        noise = rng.normal(0, 0.01, (num_seeds, 30))
        rows.append(
            tuple(evaluation(np.clip(plain + gained + noise[seed], 0, 1), names, groups) for seed in range(num_seeds))
        )
    return ComparedMethods("classification", tuple(gains), tuple(rows))
