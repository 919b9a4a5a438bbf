"""Finished runs of a classifier, written as files, with nothing wrong unless a test asks for it."""

import json

import numpy as np

from analysis.run_folders import COUNTS, PATH, STEPS, evaluation, recipe, statistics, write_run

SOFTMAX_EQL = {"type": "SoftmaxEql", "prior_power": 1.0}
SIGMOID_EQL = {"type": "SigmoidEql", "positive_boost": 4.0, "reweight_positive": True, "reweight_negative": True}
RATIO = (1.0, 1.0, 0.9, 0.9, 0.8, 0.7)
BATCH_SIZE = 20


def classifier(loss=SOFTMAX_EQL, scores="Softmax", **method):
    """Settings as in `recipe.json`."""
    method = {"type": "Method", "loss": loss, "scores": {"type": scores}, "bias_prior": None, **method}
    training = {"type": "TrainSettings", "batch_size": BATCH_SIZE}
    parts = {"data": {"type": "OwnImages"}, "method": method, "training": training}
    return {"type": "ClassificationRecipe", **parts, "precision": "32"}


def write_classifier(folder, settings=None, *, step=100, won=(1, 0.95, 0.9, 0.9, 0.8, 0.7), assignments=(), **content):
    """A run of 100 steps; `won` is the share of its own samples that each category wins."""
    content.setdefault("statistics", {**moving(), **recognition(won)})
    content.setdefault("evaluation", evaluation_without())
    own = recipe(settings=settings or classifier(), format=2, recipe="own_data:classification", set=list(assignments))
    own["starts"][0]["last_step"] = 100
    write_run(folder, recipe=own, **content)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / f"step_{step:08d}.pt").touch()
    return folder


def moving(ratio=RATIO):
    """Gradient that grows by less than 1 a step over all categories."""
    grown = statistics(ratio)
    for sign in ("positive", "negative"):
        grown[f"{PATH}.{sign}"] = grown[f"{PATH}.{sign}"] / 10
    return grown


def recognition(won, samples=BATCH_SIZE * STEPS[-1]):
    """Samples seen in proportion to the counts."""
    shares = np.array(COUNTS) / sum(COUNTS)
    seen = np.linspace(0, samples, len(STEPS))[:, None] * shares
    return {"criterion.seen": seen, "criterion.compared": seen, "criterion.won": seen * np.array(won)}


def evaluation_without(absent=()):
    """Ten test images of each category, except of absent ones."""
    content = json.loads(json.dumps(evaluation([0.6, 0.5, 0.4, 0.2, 0.1, 0.1])))
    for label, category in enumerate(content["categories"]):
        category["num_test"] = 0 if label in absent else 10
    return content
