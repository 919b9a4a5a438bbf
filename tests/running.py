"""Running recipes in tests."""

from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.run_folder import task_of


def load(name, assignments=()):
    """The recipe of a name, with what is set."""
    return load_recipe(name, assignments).recipe


def train(recipe, folder, *, resume=False, source=None):
    """Train a recipe in a run folder, as the command does."""
    return task_of(recipe).train(recipe, folder, resume=resume, source=source or {}, command=["equigrad"])
