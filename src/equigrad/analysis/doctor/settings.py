"""What looks wrong in the settings of a run: loss, scores, first bias and sampler that do not go together.

Settings are the JSON of `recipe.json`, so that nothing the file names has to be imported.
"""

from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.json_files import Json

TRAIN_AGAIN = "equigrad train …"
"""Stands in a remedy for the command of the run; what changes follows as `--set NAME=VALUE …` and ends the remedy."""

_SIGMOID_LOSSES = ("SigmoidEql", "Efl", "Eqfl", "Evfl", "FocalEql", "QualityFocal", "GradientBlocking")
_SOFTMAX_LOSSES = (
    *("CrossEntropy", "BackgroundCrossEntropy", "AlignedCrossEntropy", "SoftmaxEql", "BalancedSoftmax"),
    *("LogitAdjustment", "Lade", "Seesaw", "Distillation", "GroupedSoftmax"),
)
_SIGMOID_SCORES = ("Sigmoid", "SigmoidObjectness")
_SOFTMAX_SCORES = ("Softmax", "AdjustedSoftmax", "SoftmaxObjectness", "SoftmaxBackground", "NorCal")
_ONE_LABEL = ("GlyphImages", "OwnImages", "PublishedImages")  # data with one category for each image
_COUNTING_LOSSES = ("BalancedSoftmax", "LogitAdjustment", "Lade", "Seesaw", "GradientBlocking")


def task_of(settings: Json) -> str | None:
    """The task as `equigrad compare` names it; None for settings of a user's own parts."""
    if settings.get("type") == "DetectionRecipe":
        return "instance_segmentation" if part(settings, "detector").get("with_masks") else "detection"
    if settings.get("type") == "SegmentationRecipe":
        return "semantic_segmentation"
    return "classification" if has_one_label(settings) else None


def has_one_label(settings: Json) -> bool:
    """Whether a run classifies images that have one category each."""
    is_classification = settings.get("type") == "ClassificationRecipe"
    return is_classification and part(settings, "data").get("type") in _ONE_LABEL


def loss_of(settings: Json) -> Json:
    """Settings of the loss of the categories, without objectness around it."""
    loss = part(part(settings, "method"), "loss")
    return part(loss, "loss") if loss.get("type") == "WithObjectness" else loss


def compensates(loss: Json) -> bool:
    """Whether a loss gives rare categories more weight or margin than the plain one."""
    match loss.get("type"):
        case "SoftmaxEql":
            return loss.get("prior_power") != 0
        case "SigmoidEql" | "FocalEql":
            return bool(loss.get("reweight_positive") or loss.get("reweight_negative"))
        case "Efl" | "Eqfl" | "Evfl":
            return loss.get("focus_scale") != 0
        case kind:
            return kind in _COUNTING_LOSSES


def part(settings: Json, name: str) -> Json:
    """A dictionary inside settings; empty if they have none of that name."""
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def settings_findings(settings: Json) -> list[Finding]:
    """What does not go together."""
    found = (_mismatch(settings), _missing_prior(settings), _compensated_twice(settings))
    return [finding for finding in found if finding is not None]


def _mismatch(settings: Json) -> Finding | None:
    loss, scores = loss_of(settings).get("type"), part(part(settings, "method"), "scores").get("type")
    if loss in _SIGMOID_LOSSES and scores in _SOFTMAX_SCORES:
        wanted = "Sigmoid"
    elif loss in _SOFTMAX_LOSSES and scores in _SIGMOID_SCORES:
        wanted = "Softmax"
    else:
        return None
    wanted += "Objectness" if str(scores).endswith("Objectness") else ""
    return Finding(
        "error",
        "scores_mismatch",
        "the scores do not fit the loss",
        f"loss {loss}, scores {scores}",
        f"{TRAIN_AGAIN} --set method.scores={wanted}",
    )


def _missing_prior(settings: Json) -> Finding | None:
    loss = loss_of(settings).get("type")
    if loss not in _SIGMOID_LOSSES:
        return None
    for path, prior in _priors(settings):
        if prior is None or prior >= 0.5:
            return Finding(
                "warning",
                "bias_prior_missing",
                f"sigmoids start at {prior or 0.5:g}, so the first steps give every category much negative gradient",
                f"loss {loss}, {path} is {'none' if prior is None else prior}",
                f"{TRAIN_AGAIN} --set {path}=0.001",
            )
    return None


def _priors(settings: Json) -> list[tuple[str, float | None]]:
    method, detector = part(settings, "method"), part(settings, "detector")
    classifier = part(method, "classifier")
    places = {
        "method.bias_prior": (method, "bias_prior"),
        "method.classifier.prior": (classifier, "prior"),
        "detector.prior": (detector, "prior"),
    }
    return [(path, owner[name]) for path, (owner, name) in places.items() if _is_prior(owner, name)]


def _is_prior(owner: Json, name: str) -> bool:
    return name in owner and isinstance(owner[name], int | float | None)


def _compensated_twice(settings: Json) -> Finding | None:
    method = part(settings, "method")
    path = "sampler" if "sampler" in settings else "method.sampler"
    sampler, loss = settings.get("sampler", method.get("sampler")), loss_of(settings)
    if sampler not in ("repeat_factor", "class_balanced") or not compensates(loss):
        return None
    if sampler == "repeat_factor" and method.get("type") == "DenseMethod":
        return None  # the paper's one-stage detectors train so
    return Finding(
        "warning",
        "compensated_twice",
        "sampler and loss both compensate for rare categories, which may cost the frequent ones",
        f"{path}={sampler} with loss {loss.get('type')}",
        f"train with the plain loss, or with a plain sampler: {TRAIN_AGAIN} --set {path}=random",
    )
