"""`equigrad demo`: four losses compared on generated data."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from equigrad.commands.exit_codes import STOPPED

PAIRS = (("tiny:ce", "tiny:softmax_eql"), ("tiny:bce", "tiny:sigmoid_eql"))
METRICS = ("Overall", "Many", "Medium", "Few")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad demo`."""
    demo = commands.add_parser("demo", help="compare four losses on generated data, in minutes")
    demo.add_argument("--folder", type=Path, default=Path("runs/demo"), help="where the runs and the page are written")
    demo.add_argument("--epochs", type=int, help="fewer epochs, for a quick look")
    demo.set_defaults(function=run_demo)


def run_demo(parsed: argparse.Namespace, command: Sequence[str]) -> int | None:
    """Train plain and equalized losses with the same seed and budget, and show what differs."""
    from equigrad.analysis import RunHistory, plot_groups, write_report
    from equigrad.recipes.catalogue import load_recipe
    from equigrad.tasks.examples.find import find_examples
    from equigrad.tasks.run_folder import task_of

    assignments = [] if parsed.epochs is None else [f"training.schedule.epochs={parsed.epochs}"]
    print("40 categories of drawn glyphs, 300 training images of the most frequent, 3 of the rarest; four losses.")
    results: dict[str, Mapping[str, float]] = {}
    folders = []
    for recipe in (recipe for pair in PAIRS for recipe in pair):
        folder = parsed.folder / recipe.partition(":")[2]
        print(f"\n{recipe}")
        # A demo that was stopped goes on where it was, and one that is finished only shows its results.
        named = load_recipe(recipe, assignments)
        train, resume = task_of(named.recipe).train, folder.exists()
        result = train(named.recipe, folder, resume=resume, source=named.source(), command=command)
        if result.interrupted:
            return STOPPED
        results[recipe] = result.evaluation
        folders.append(folder)
    page = write_report(folders, parsed.folder / "report.html", command=command, find_examples=find_examples)
    picture = parsed.folder / "groups.png"
    plot_groups([RunHistory.load(folder) for folder in folders], picture)
    print(f"\n{result_table(results)}\n")
    print("Same seed, same budget; only the loss differs, and no loss knows how often a category occurs.")
    print(f"The page: {page}   The picture: {picture}")
    print("Your own images: equigrad train own_data:classification --set data.train=FOLDER --set data.test=FOLDER")
    return None


def result_table(results: Mapping[str, Mapping[str, float]]) -> str:
    """Accuracies of every run, and under each pair what the equalization changed; rounded as on the page."""
    from equigrad.analysis.rounding import ABSENT, percent, points

    lines = [f"{'accuracy in %':20}" + "".join(f"{metric:>9}" for metric in METRICS)]
    for plain, equalized in PAIRS:
        for recipe in (plain, equalized):
            lines.append(f"{recipe:20}" + "".join(f"{percent(results[recipe][metric]):>9}" for metric in METRICS))
        changes = (points(results[equalized][metric], results[plain][metric]) for metric in METRICS)
        lines.append(f"{f'   against {plain}':20}" + "".join(f"{change or ABSENT:>9}" for change in changes))
    return "\n".join(lines)
