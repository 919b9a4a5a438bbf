"""Names of the files in a run folder. Whoever writes or reads one takes its name from here."""

from pathlib import Path

RECIPE = "recipe.json"  # settings, versions, seed and commands
METRICS = "metrics.jsonl"  # the numbers of every logged step
TENSORBOARD = "tensorboard"  # the same for TensorBoard
STATISTICS = "statistics.npz"  # gradient statistics over time
CHECKPOINTS = "checkpoints"  # state to resume from
CATEGORIES = "categories.json"  # names, groups and counts of the training categories
EVALUATION = "evaluation.json"  # metrics of the test set and of each category
PREDICTIONS = "predictions"  # folder of what the model says about the test set
TEST_PREDICTIONS = Path(PREDICTIONS, "test.npz")  # of classifiers and segmenters
LABEL_MAPS = Path(PREDICTIONS, "label_maps")  # of segmenters
COMPARISONS = "comparisons"  # folder of pictures of this run beside others
REPORT = "report.html"  # the page of the run
LOCK = ".lock"  # held by the process that writes in the folder; says which
