"""Where a training starts: the weights of the backbone, or whatever `init` names.

    equigrad train own_data:detection --init runs/earlier …                        # a run: categories by name
    equigrad train own_data:detection --init retinanet_resnet50_fpn_coco.pth …     # a detector of torchvision
    equigrad train own_data:classification --init resnet50.pth …                   # weights of the backbone alone

Second stages and distillation give `init` a meaning of their own.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.engine import EngineError
from equigrad.engine.checkpoint import load_weights
from equigrad.models.backbones.pretrained import StateDict, read_weights
from equigrad.models.detection.pyramids.timm_fpn import TimmFPN
from equigrad.models.detection.torchvision_weights import from_torchvision, num_categories, torchvision_family
from equigrad.run_files import CATEGORIES, EVALUATION, read_recipe
from equigrad.tasks.backbones import with_weights, without_weights
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.detectors import RCNN, RetinaNet
from equigrad.tasks.transfer import Source, Transfer, transfer
from equigrad.terminal import printable

Model = TypeVar("Model", bound=nn.Module)

# Scores that are computed from the same logits in another way, after training.
_SAME_LOGITS = {"NorCal": "SoftmaxBackground", "AdjustedSoftmax": "Softmax"}
_BY_COUNTS = "GroupedSoftmaxProduct"  # its columns depend on the counts of a training set
_DETECTORS = {
    "Faster R-CNN": "faster_rcnn",
    "Mask R-CNN": "mask_rcnn",
    "RetinaNet": "retinanet",
    "FCOS": "fcos",
}

_log = logging.getLogger(__name__)


class Startable(Protocol):
    """What a recipe of each task has."""

    @property
    def backbone(self) -> Any:
        """Settings of the network."""

    @property
    def method(self) -> Any:
        """Loss, and scores where a method can choose them."""

    @property
    def init(self) -> Path | None:
        """What to start from; None is the backbone's weights."""


def started_model(recipe: Startable, build: Callable[[Any], Model], categories: Sequence[str]) -> Model:
    """The model of a recipe before its first step.

    Args:
        recipe: the settings.
        build: from the settings of a backbone to the model on it.
        categories: names, in the order of labels.

    Raises:
        EngineError: with one line, if `init` is nothing that the model can start from.
    """
    if recipe.init is None:
        return build(recipe.backbone)
    if recipe.init.is_dir():
        return _from_run(recipe, recipe.init, build, categories)
    if not recipe.init.exists():
        raise EngineError(f"init={recipe.init}: no such weight file or run folder")
    state = read_weights(recipe.init)
    if torchvision_family(state) is not None:
        return _from_torchvision(recipe, recipe.init, state, build, categories)
    if any(name.startswith(("pyramid.", "classification_loss.", "roi_heads.")) for name in state):
        raise EngineError(f"init={recipe.init}: a checkpoint of a run; give the folder of the run")
    if not hasattr(recipe.backbone, "weights"):
        kind = type(recipe.backbone).__name__
        raise EngineError(f"init={recipe.init}: {kind} reads no weight file; it can start from the folder of a run")
    return build(with_weights(recipe.backbone, str(recipe.init)))


@contextmanager
def shown_weights(*, shown: bool) -> Iterator[None]:
    """Print the lines about weights that are read inside, on one of several ranks."""
    logger, handler = logging.getLogger("equigrad"), _Printed(logging.INFO)
    level = logger.level
    if shown:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Printed(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(printable(record.getMessage()), flush=True)


def _from_run(recipe: Startable, folder: Path, build: Callable[[Any], Model], categories: Sequence[str]) -> Model:
    settings = read_recipe(folder)["settings"]
    weights = load_weights(folder)
    if not isinstance(weights, dict) or not all(isinstance(value, Tensor) for value in weights.values()):
        raise EngineError(f"init={folder}: its checkpoint has no weights of a model")
    source = Source(weights, _categories_of_run(folder), _scores_of_run(settings))
    model = build(without_weights(recipe.backbone))
    try:
        result = _take(model, source, categories, recipe)
    except ValueError as error:
        there = _kind_of(settings.get("backbone"))
        here = type(recipe.backbone).__name__
        raise EngineError(f"init={folder}: its {there} does not fit the {here} of this recipe: {error}") from None
    _report(
        f"{folder}: {_taken(result)}, {result.num_categories} of {len(categories)} categories by name", model, result
    )
    return model


def _from_torchvision(
    recipe: Startable, file: Path, state: StateDict, build: Callable[[Any], Model], categories: Sequence[str]
) -> Model:
    family = torchvision_family(state)
    assert family is not None
    scores, num_there = "SoftmaxBackground" if "R-CNN" in family else None, num_categories(state)
    model = build(without_weights(recipe.backbone))
    try:
        result = _take(model, Source(from_torchvision(state), num_there, scores), categories, recipe)
    except ValueError as error:
        kind, detector = type(recipe.backbone).__name__, f" --detector {_DETECTORS[family]}"
        flags = f"--backbone resnet50{detector if hasattr(recipe, 'detector') else ''}"
        raise EngineError(
            f"init={file}: torchvision's {family} does not fit {kind} ({error}); it fits {flags}"
        ) from None
    _report(f"{file}: torchvision's {family} of {num_there} categories, {_taken(result)}", model, result)
    if settings := list(_fitting_settings(recipe, state)):
        _log.info("the detector is torchvision's with %s", " ".join(f"--set {setting}" for setting in settings))
    return model


def _take(model: nn.Module, source: Source, categories: Sequence[str], recipe: Startable) -> Transfer:
    result = transfer(model, source, categories, _scores(recipe))
    for module in model.modules():
        if isinstance(module, TimmFPN):
            module.keep_statistics()
    return result


def _fitting_settings(recipe: Startable, state: StateDict) -> Iterator[str]:
    """Settings with which a detector of the same family is that of torchvision."""
    detector = getattr(recipe, "detector", None)
    for name in ("torchvision_anchors", "torchvision_points"):
        if getattr(detector, name, True) is False:
            yield f"detector.{name}=true"
    if isinstance(detector, RCNN) and "roi_heads.box_head.0.0.weight" in state and detector.version == 1:
        yield from ("detector.version=2", "backbone.fpn_batch_norm=true")
    if isinstance(detector, RetinaNet) and "head.classification_head.conv.0.1.weight" in state:
        yield from () if detector.group_norm else ("detector.group_norm=true", "backbone.extra=c5")


def _taken(result: Transfer) -> str:
    return f"{result.num_taken} of {result.num_weights} weights taken"


def _report(line: str, model: nn.Module, result: Transfer) -> None:
    """Log what was taken and what starts with new weights."""
    has_statistics = any("statistics." in name for name in model.state_dict())
    new = [*result.new_parts, *(["gradient statistics"] if has_statistics else [])]
    _log.info("%s", f"{line}; new: {', '.join(new)}" if new else line)


def _categories_of_run(folder: Path) -> Sequence[str] | int:
    """Their names; a run of a classifier or segmenter that was not evaluated does not know them."""
    if (folder / CATEGORIES).exists():
        return TrainedCategories.load(folder).names
    if (folder / EVALUATION).exists():
        return [category.name for category in Evaluation.load(folder).categories]
    return 0


def _scores_of_run(settings: Mapping[str, Any]) -> str | None:
    method = settings.get("method")
    scores = method.get("scores") if isinstance(method, dict) else None
    kind = None if scores is None else _kind_of(scores)
    return None if kind is None else _SAME_LOGITS.get(kind, kind)


def _scores(recipe: Startable) -> str | None:
    scores = getattr(recipe.method, "scores", None)
    kind = None if scores is None else type(scores).__name__
    # Not even a run of the same method has the same columns.
    return f"new {kind}" if kind == _BY_COUNTS else _SAME_LOGITS.get(str(kind), kind)


def _kind_of(settings: Any) -> str:
    return str(settings.get("type", "network")) if isinstance(settings, dict) else "network"
