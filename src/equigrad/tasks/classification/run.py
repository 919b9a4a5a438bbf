"""A run of image classification, read from top to bottom: data, model, training, evaluation, results."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

import equigrad
from equigrad.analysis.evaluation_file import Evaluation
from equigrad.data.feature_cache import FeatureDataset, cache_features
from equigrad.data.frequency import Counts
from equigrad.data.images.dataset import ImageDataset
from equigrad.engine import EngineError, Training, TrainResult, launch
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.distributed import from_first_rank, join_ranks, ranks
from equigrad.engine.loading.evaluation_loader import EvaluationLoader
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.evaluation.multi_label import THRESHOLD, MultiLabelEvaluator
from equigrad.models.classification.classifier import Classifier, build_classifier
from equigrad.run_files import EVALUATION
from equigrad.sampling import CategoryPresence, ClassBalancedSampler, RepeatFactorSampler, ShuffledSampler
from equigrad.tasks.backbones import without_weights
from equigrad.tasks.classification.predictor import LabelPredictor
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.classification.top_predictions import TopPredictions
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.progress import ProgressLine, data_summary, tested_batches
from equigrad.tasks.results import EvaluationResult, remove_results
from equigrad.tasks.samplers import Sampler
from equigrad.tasks.start import shown_weights, started_model
from equigrad.tasks.weights import with_weights_of
from equigrad.terminal import printable

if TYPE_CHECKING:
    from lightning.fabric import Fabric


Images = ImageDataset | FeatureDataset


def train(
    recipe: ClassificationRecipe, folder: Path, *, resume: bool, source: Mapping[str, Any], command: Sequence[str]
) -> TrainResult:
    """Train in the run folder; at the end evaluate, keep the predictions and write the page of the run.

    Args:
        recipe: the settings.
        folder: the run folder.
        resume: continue from its last checkpoint.
        source: what `recipe.json` says about the recipe.
        command: how the run was started.
    """
    fabric = launch(precision=recipe.precision, seed=recipe.training.seed, accelerator=recipe.device)
    train_set, test_set = recipe.data.load()
    if recipe.feature_cache is not None and recipe.training.on_error == "skip":
        train_set = _readable(train_set)
    with shown_weights(shown=fabric.is_global_zero):
        model = build_model(recipe, train_set.category_counts, train_set.class_names)
    sampler = build_sampler(recipe, train_set)
    trained_on, tested_on = _with_features(recipe, model, fabric, train_set, test_set)
    result = None
    with Training(
        fabric,
        model,
        trained_on,
        sampler,
        recipe.training,
        folder,
        resume=resume,
        sample_name=train_set.sample_name,
        num_classes=len(train_set.class_names),
        recipe={**source, "num_classes": len(train_set.class_names), "num_images": len(train_set)},
        data_summary=_summary(recipe, train_set),
        command=command,
    ) as training:
        if fabric.is_global_zero:
            remove_results(folder)  # of an earlier evaluation, if the run is resumed
        fabric.barrier()  # before any rank writes new results
        while training.run_to_evaluation():
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, train_set, tested_on, training)
            training.log_evaluation(result.metrics)
        if result is None and not training.interrupted:  # resumed when all steps were done
            with training.evaluation_model() as evaluated:
                result = evaluate_model(recipe, evaluated, train_set, tested_on, training)
        if fabric.is_global_zero and result is not None and not training.interrupted:
            result.save(folder)
    return training.result


def _summary(recipe: ClassificationRecipe, train_set: ImageDataset) -> str:
    summary = data_summary(len(train_set), train_set.category_counts)
    if recipe.feature_cache is None:
        return summary
    return (
        f"{summary}; only the classifier is trained, on features of a frozen backbone: if the images are unlike "
        "photographs (drawings, scans), compare with --frozen none, which trains all"
    )


def evaluate(recipe: ClassificationRecipe, folder: Path, weights: Path | None = None) -> EvaluationResult:
    """Evaluate the newest weights of a run on its test set, shared among the ranks; every rank must call.

    Args:
        recipe: the settings.
        folder: the run folder; the first rank writes the results there.
        weights: run folder to take the weights from; None is `folder`.
    """
    device = join_ranks()
    train_set, test_set = recipe.data.load()
    model = trained_model(recipe, train_set.category_counts, weights or folder).to(device)
    result = evaluate_model(recipe, model, train_set, test_set)
    if ranks()[0] == 0:
        result.save(folder)
    return result


def predictor(recipe: ClassificationRecipe, folder: Path) -> LabelPredictor:
    """A predictor with the newest weights of a run; the data set is not needed."""
    names, counts = categories_of_run(recipe, folder)
    model = trained_model(recipe, counts, folder)
    found: dict[str, Any] = {"threshold": THRESHOLD, "num_shown": None} if recipe.is_multi_label else {}
    return LabelPredictor(model, recipe.data.evaluation_transform(), names, counts, **found)


def categories_of_run(recipe: ClassificationRecipe, folder: Path) -> tuple[Sequence[str], Counts]:
    """Names and training images of the categories, from the run folder or, if it was interrupted, from its data."""
    if (folder / EVALUATION).exists():
        return Evaluation.load(folder).names_and_counts()
    train_set, _ = recipe.data.load()
    return train_set.class_names, train_set.category_counts


def build_model(recipe: ClassificationRecipe, category_counts: Counts, class_names: Sequence[str] = ()) -> Classifier:
    """Build the model to train; weights of a run in `init` are matched by the names of the categories."""
    method = recipe.method
    if not method.needs_init:
        return started_model(recipe, lambda backbone: _assemble(recipe, backbone.build(), category_counts), class_names)
    if recipe.init is None:
        raise EngineError("this recipe starts from a finished run: give its folder with --init RUN")
    init = load_weights(recipe.init)
    # Weights from a run replace those of the backbone, unless the run is the teacher.
    backbone = recipe.backbone if method.distils else without_weights(recipe.backbone)
    model = _assemble(recipe, backbone.build(), category_counts, teacher_weights=init)
    if not method.distils:
        _load_features(model, init, recipe.init)
    if method.second_stage is not None:
        method.second_stage.change(model)
    return model


def trained_model(recipe: ClassificationRecipe, category_counts: Counts, folder: Path) -> Classifier:
    """The newest model of a run, for evaluation."""
    model = _assemble(recipe, without_weights(recipe.backbone).build(), category_counts)
    if recipe.method.second_stage is not None:
        recipe.method.second_stage.change(model)
    return with_weights_of(model, folder, channels_last=recipe.training.channels_last)


def build_sampler(recipe: ClassificationRecipe, train_set: Images) -> Sampler:
    """Order of the training images."""
    labels: Tensor | CategoryPresence
    labels, seed = torch.as_tensor(train_set.labels), recipe.training.seed
    if recipe.is_multi_label:
        images, categories = labels.nonzero(as_tuple=True)
        labels = CategoryPresence(images, categories, *labels.shape)
    if recipe.method.sampler == "class_balanced":
        # Four at each visit of a category, and epochs that have as many images as there are, as published.
        return ClassBalancedSampler(labels, seed=seed, per_class=4)
    if recipe.method.sampler == "repeat_factor":
        return RepeatFactorSampler(labels, seed=seed)
    return ShuffledSampler(len(train_set), seed=seed)


def _with_features(
    recipe: ClassificationRecipe, model: Classifier, fabric: "Fabric", train_set: ImageDataset, test_set: ImageDataset
) -> tuple[Images, Images]:
    """Both sets as the model sees them: as images, or as cached features of its frozen backbone."""
    folder = recipe.feature_cache
    if folder is None:
        return train_set, test_set
    if getattr(recipe.backbone, "weights", "") is None and recipe.init is None:
        raise EngineError("a frozen backbone needs weights: --set backbone.weights=FILE, or --frozen none")
    if recipe.training.channels_last:
        model.to(memory_format=torch.channels_last)
    cached = partial(cache_features, model.backbone, num_workers=recipe.training.num_workers, device=fabric.device)
    plain = {"training": ImageDataset(train_set.images, test_set.transform), "test": test_set}
    if fabric.is_global_zero:
        remedies = {"training": "--set training.on_error=skip leaves such images out", "test": "remove it"}
        for name, images in plain.items():
            try:
                cached(images, folder, progress=ProgressLine(f"features of {name} images"))
            except OSError as error:  # of a worker process, with its traceback before it
                reason = str(error).strip().splitlines()[-1].removeprefix("OSError: ")
                raise EngineError(f"{reason}; {remedies[name]}") from None
    from_first_rank(None)  # the others wait for it
    model.sees_features = True
    return cached(plain["training"], folder), cached(plain["test"], folder)


def _readable(images: ImageDataset) -> ImageDataset:
    """Without the images that cannot be decoded; a line on each."""
    kept = []
    for index in range(len(images)):
        try:
            images[index]
            kept.append(index)
        except OSError as error:
            if ranks()[0] == 0:
                print(printable(f"warning: {error}, skipped"), flush=True)
    return ImageDataset(images.images.subset(kept), images.transform, images.min_side)


@torch.no_grad()
def evaluate_model(
    recipe: ClassificationRecipe,
    model: nn.Module,
    train_set: ImageDataset,
    test_set: Images,
    training: Training | None = None,
) -> EvaluationResult:
    """Predict the whole test set, shared among the ranks so that each image counts once; every rank must call."""
    device = next(model.parameters()).device
    kind = MultiLabelEvaluator if recipe.is_multi_label else ClassificationEvaluator
    evaluator = kind(train_set.category_counts, train_set.class_names, convention=recipe.shot_groups)
    top = TopPredictions()
    # Features are in memory: nothing is read.
    num_workers = 0 if isinstance(test_set, FeatureDataset) else recipe.training.num_workers
    loader = EvaluationLoader(test_set, batch_size=recipe.test_batch_size, num_workers=num_workers)
    for images, targets in tested_batches(loader, len(loader.share), training):
        predictions = model(images.to(device))
        evaluator.add(predictions, targets)
        top.add(predictions, targets)
    arrays = {
        **top.gathered(),
        "class_names": np.asarray(train_set.class_names, dtype=np.str_),
    }
    return EvaluationResult(evaluator.result(), evaluator.per_category(), arrays)


def _assemble(
    recipe: ClassificationRecipe,
    backbone: nn.Module,
    category_counts: Counts,
    teacher_weights: dict[str, Tensor] | None = None,
) -> Classifier:
    """Backbone, classifier, loss and scores, and the teacher of a distillation."""
    method, num_classes = recipe.method, len(category_counts)
    counts = CategoryCounts(category_counts, category_counts)
    model = build_classifier(
        backbone,
        num_classes,
        method.loss.build(counts),
        method.scores.build(counts),
        cosine_temperature=method.cosine_temperature,
        bias_prior=method.bias_prior,
    )
    if method.distils:
        network = without_weights(recipe.backbone).build()
        teacher = build_classifier(network, num_classes, nn.Identity(), equigrad.SoftmaxScores())
        if teacher_weights is not None:
            _load_features(teacher, teacher_weights, recipe.init)
        model.teacher = equigrad.FrozenTeacher(nn.Sequential(teacher.backbone, teacher.classifier))
    return model


def _load_features(model: nn.Module, weights: dict[str, Tensor], folder: Path | None) -> None:
    """Take over backbone and classifier of a finished run, but neither its loss nor its teacher."""
    kept = {name: value for name, value in weights.items() if name.startswith(("backbone.", "classifier."))}
    try:
        missing, unexpected = model.load_state_dict(kept, strict=False)
    except RuntimeError as error:
        raise EngineError(f"{folder} does not fit this recipe: {str(error).splitlines()[-1].strip()}") from error
    lost = [name for name in missing if name.startswith(("backbone.", "classifier."))] + list(unexpected)
    if lost:
        raise EngineError(f"{folder} does not fit this recipe: {lost[0]} and {len(lost) - 1} more have no counterpart")
