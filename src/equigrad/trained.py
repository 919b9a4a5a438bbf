"""Trained runs in Python. What they need is imported when one is loaded: `import equigrad` needs torch alone."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.run_files import unfinished_note

if TYPE_CHECKING:
    import torch

    from equigrad.tasks.trained_model import TrainedModel


def load(
    run: str | os.PathLike[str], *, device: "str | torch.device | None" = None, recipe: str | None = None
) -> "TrainedModel":
    """Load the newest model of a run of any task, for predictions.

        model = equigrad.load("runs/own")
        model.predict("photo.jpg").draw().save("photo.png")

    Nothing in the run folder is executed, and the data of the run is not needed. A warning is given if the run is not
    finished.

    Args:
        run: the run folder.
        device: a device such as "cuda"; None uses a GPU if there is one.
        recipe: `module:function` of your own recipe, for a run with your own parts.

    Raises:
        ModuleNotFoundError: the `train` extra is not installed.
        ValueError: the folder is not a run, or is damaged.
    """
    try:
        from equigrad.recipes.catalogue import changed_recipe
        from equigrad.tasks.run_folder import trained_model
    except ModuleNotFoundError as error:
        needed = "equigrad.load needs the train extra: pip install 'equigrad[train]'"
        raise ModuleNotFoundError(f"{error}; {needed}", name=error.name) from None
    model = trained_model(Path(run), changed_recipe(Path(run), [], recipe), device)
    if note := unfinished_note(Path(run)):
        warnings.warn(note, stacklevel=2)
    return model
