"""What does more for the rare categories of a run than its settings did, as far as docs/evidence/advice.md shows it."""

from equigrad.analysis.doctor.settings import TRAIN_AGAIN, compensates, loss_of, part
from equigrad.analysis.json_files import Json

_STRENGTHS = {
    "softmax_eql": ("SoftmaxEql", ("prior_power=1",)),
    "sigmoid_eql": ("SigmoidEql", ("reweight_positive=true", "reweight_negative=true")),
    "efl": ("Efl", ("focus_scale=8",)),
}
"""Loss of a method, and the settings that bring it back from zero strength, at which it is the plain loss."""

_MORE_SAMPLES = "add training samples of rare categories: no other loss was measured to help here"


def tail_remedy(recipe: Json) -> str:
    """How to train a run again, given its `recipe.json`; with a loss that compensates already, for longer."""
    settings = recipe.get("settings", {})
    loss = loss_of(settings)
    if compensates(loss):
        return _longer(settings)
    match settings.get("type"):
        case "DetectionRecipe" if part(settings, "method").get("type") == "DenseMethod":
            return _one_stage(recipe)
        case "DetectionRecipe":
            return _train_with("sigmoid_eql", recipe)
        case "ClassificationRecipe" if part(settings, "data").get("type") == "ManyLabels":
            return _MORE_SAMPLES
        case "ClassificationRecipe" if loss.get("type") == "SigmoidEql":
            return _train_with("sigmoid_eql", recipe)
        case "ClassificationRecipe" | "SegmentationRecipe":
            return _train_with("softmax_eql", recipe)
        case _:
            return "train with an equalization loss"


def _longer(settings: Json) -> str:
    schedule = part(part(settings, "training"), "schedule")
    for name in ("epochs", "steps"):
        length = schedule.get(name)
        if isinstance(length, int | float):
            return f"train longer: {TRAIN_AGAIN} --set training.schedule.{name}={2 * length:g}"
    return "train longer (--epochs)"


def _one_stage(recipe: Json) -> str:
    """EFL helped rare categories where SGD trained and no images were repeated; repeated images helped alone."""
    settings = recipe["settings"]
    if settings.get("sampler") != "random":
        return _MORE_SAMPLES
    uses_sgd = part(part(settings, "training"), "optimizer").get("type") == "SGD"
    if uses_sgd and loss_of(settings).get("type") == "Efl":
        return _train_with("efl", recipe)
    return f"repeat images of rare categories: {TRAIN_AGAIN} --set sampler=repeat_factor"


def _train_with(method: str, recipe: Json) -> str:
    settings = recipe["settings"]
    kind, strengths = _STRENGTHS[method]
    if str(recipe.get("recipe")).startswith("own_data:"):
        change = f"--set method={method}"
    elif loss_of(settings).get("type") == kind:
        has_objectness = part(part(settings, "method"), "loss").get("type") == "WithObjectness"
        path = "method.loss.loss" if has_objectness else "method.loss"
        change = " ".join(f"--set {path}.{strength}" for strength in strengths)
    else:
        return f"train with the method {method}"
    return f"train with {method}: {TRAIN_AGAIN} {change}"
