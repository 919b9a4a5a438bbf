"""Examples of runs of any task, from the test set that their recipe names and what their folders keep.

Nothing of a run folder is executed: recipes are rebuilt from their settings, and paths come from the data set.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from equigrad.analysis.comparison import Comparison
from equigrad.analysis.report.examples import ChangedCategories, Example, Examples
from equigrad.errors import one_line
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.examples import classification, detection, segmentation
from equigrad.tasks.examples.wanted import Wanted
from equigrad.tasks.run_folder import recipe_of_run
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

Find = Callable[[Sequence[Path], Sequence[Any], Sequence[Wanted]], list[list[Example]]]

_FIND: dict[type[Any], Find] = {
    ClassificationRecipe: classification.find,
    DetectionRecipe: detection.find,
    SegmentationRecipe: segmentation.find,
}
_NOTES: dict[type[Any], str] = {
    DetectionRecipe: "First the true objects of the category, then what each run detects there. Orange boxes are of "
    "rare categories, green of common, blue of frequent ones.",
    SegmentationRecipe: "First the true regions, then those that each run finds. Those of the category have a white "
    "border.",
}


def find_examples(comparison: Comparison, changed: ChangedCategories) -> Examples:
    """Test images of the changed categories; a note where data or predictions are not there."""
    folders = [run.history.folder for run in comparison.runs]
    better = comparison.runs.index(changed.run)
    wanted = [
        Wanted(int(comparison.categories.labels[index]), better, is_gain)
        for indices, is_gain in ((changed.gained, True), (changed.lost, False))
        for index in indices
    ]
    try:
        recipes = [recipe_of_run(folder) for folder in folders]
        for folder, recipe in zip(folders, recipes, strict=True):
            if type(recipe) is not type(recipes[0]) or recipe.data != recipes[0].data:
                raise ValueError(f"{folder} has another test set than {folders[0]}")
        found = _FIND[type(recipes[0])](folders, recipes, wanted)
    except (OSError, ValueError) as error:
        return Examples({}, f"Test images are not shown: {one_line(error)}.")
    return Examples(dict(zip([*changed.gained, *changed.lost], found, strict=True)), _NOTES.get(type(recipes[0]), ""))
