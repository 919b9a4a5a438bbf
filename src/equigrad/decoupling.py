"""Second training stages on a trained model: cRT, LWS, DisAlign, and tau-normalisation, which needs no training.

Each function takes the model and the path of its classifier, so one call serves classifiers and detectors. It changes
the model in place and returns its new classifier; the rest is the usual training loop, usually with
class-balanced sampling:

    classifier = learn_scales(model, "roi_heads.box_predictor.cls_score")
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.02)
    ...                                                   # model.train(); loss.backward(); optimizer.step()
    model.roi_heads.box_predictor.cls_score = classifier.folded()      # for export: a plain linear layer again

A classifier is an `nn.Linear`, a 1x1 `nn.Conv2d` or a `CosineClassifier`. Where it has more columns than categories,
`num_classes=C` restricts a method to the first C of them and the others (background, objectness) pass unchanged.
Note that torchvision's detectors have their background first, not last.
"""

import copy
import difflib
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from equigrad.models.classification.cosine_classifier import CosineClassifier

Classifier = nn.Linear | nn.Conv2d | CosineClassifier
BatchNormMode = Literal["frozen", "moving"]


def retrain_classifier(model: nn.Module, classifier: str, *, batch_norm: BatchNormMode = "frozen") -> Classifier:
    """cRT: re-initialise the classifier and freeze everything else.

    Args:
        model: changed in place.
        classifier: path of the classifier, such as `"fc"`.
        batch_norm: `"frozen"` keeps BatchNorm in evaluation mode, also after `model.train()`. `"moving"` lets its
            running statistics follow the new sampling, as the published code does.

    Returns:
        The classifier, the only trainable part of the model.
    """
    _check_batch_norm(batch_norm)
    module = _find_classifier(model, classifier)
    _freeze(model, batch_norm)
    module.reset_parameters()
    return module.requires_grad_()


def learn_scales(
    model: nn.Module,
    classifier: str,
    *,
    scale_bias: bool = True,
    num_classes: int | None = None,
    batch_norm: BatchNormMode = "frozen",
) -> "ScaledClassifier":
    """LWS: keep the classifier and learn one scale per category; everything else is frozen.

    Args:
        model: changed in place.
        classifier: path of the classifier.
        scale_bias: see `ScaledClassifier`; the published classifiers scale it, the published detectors do not.
        num_classes: C, if the classifier has further columns.
        batch_norm: as in `retrain_classifier`.

    Returns:
        The module that replaced the classifier; its scales are the only trainable part of the model.
    """
    _check_batch_norm(batch_norm)
    module = _find_classifier(model, classifier)
    scaled = ScaledClassifier(module, scale_bias=scale_bias, num_classes=num_classes)
    _freeze(model, batch_norm)
    _replace(model, module, scaled)
    return scaled


def align(
    model: nn.Module,
    classifier: str,
    *,
    form: Literal["residual", "interpolated"] = "residual",
    num_classes: int | None = None,
    batch_norm: BatchNormMode = "frozen",
) -> "AlignedClassifier":
    """DisAlign: keep the classifier and learn how to correct its logits; everything else is frozen.

    The published loss of this stage is cross-entropy with the weights of `alignment_weights`.

    Args:
        model: changed in place.
        classifier: path of the classifier.
        form: see `AlignedClassifier`.
        num_classes: C, if the classifier has further columns.
        batch_norm: as in `retrain_classifier`.

    Returns:
        The module that replaced the classifier; its corrections are the only trainable part of the model.
    """
    _check_batch_norm(batch_norm)
    module = _find_classifier(model, classifier)
    aligned = AlignedClassifier(module, form=form, num_classes=num_classes)
    _freeze(model, batch_norm)
    _replace(model, module, aligned)
    return aligned


@torch.no_grad()
def normalize_weights(
    model: nn.Module, classifier: str, *, power: float, num_classes: int | None = None
) -> nn.Linear | nn.Conv2d:
    r"""tau-normalisation: bring the norms of the category weights closer together, and drop the bias.

    $$ w_j / \|w_j\|^\tau $$

    Nothing is trained or frozen. It is not undone by a second call: compare values of tau on copies of the model.

    Args:
        model: changed in place.
        classifier: path of the classifier; a cosine classifier has nothing to normalise and is refused.
        power: tau; the published grid is 0, 0.1, ..., 2. With 0 only the bias is removed.
        num_classes: C, if the classifier has further columns; these keep weight and bias.

    Returns:
        The classifier.
    """
    module = _find_classifier(model, classifier)
    if isinstance(module, CosineClassifier):
        raise TypeError(f"{classifier} is a CosineClassifier, which normalises its weights already")
    _check_power(power)
    num_columns = len(module.weight)
    num_categories = _num_categories(module, num_classes)
    weight = module.weight[:num_categories]
    norms = weight.flatten(1).norm(dim=1)
    norms[norms == 0] = 1  # a zero weight stays zero
    weight /= _per_row(norms**power, weight)
    if num_categories == num_columns:
        module.bias = None
    elif module.bias is not None:
        module.bias[:num_categories] = 0
    return module


def alignment_weights(category_counts: Sequence[float] | Tensor, power: float) -> Tensor:
    r"""Category weights of DisAlign's cross-entropy, with mean 1.

    $$ w_j \propto (n_j / N)^{-\rho} $$

    A category without samples gets the weight of the rarest one that has some.

    Args:
        category_counts: n_j, (C,), not negative.
        power: rho; published 1.2 for ImageNet-LT, 0.8 for LVIS (background: weight 1), 0.2 for ADE20K.

    Returns:
        (C,), in the dtype of floating-point counts, otherwise in the default dtype.
    """
    _check_power(power)
    counts = torch.as_tensor(category_counts).detach()
    dtype = counts.dtype if isinstance(category_counts, Tensor) and counts.is_floating_point() else None
    counts = counts.double()
    if counts.dim() != 1 or not bool((counts.isfinite() & (counts >= 0)).all()) or not bool(counts.any()):
        raise ValueError(f"category_counts must be (C,), finite, not negative and not all 0, got {counts.tolist()}")
    rarest = counts[counts > 0].min()
    weights = (counts.clamp(min=rarest) / rarest) ** -power  # relative to the rarest: no overflow
    return (weights / weights.mean()).to(dtype or torch.get_default_dtype())


class _SecondStage(nn.Module):
    """A frozen classifier whose first C logits are corrected."""

    def __init__(self, classifier: Classifier, num_classes: int | None) -> None:
        super().__init__()
        self.num_classes = _num_categories(classifier, num_classes)
        self.out_features, self.in_features = classifier.weight.shape[:2]
        self.classifier = classifier.requires_grad_(False)
        self.train(classifier.training)

    def forward(self, features: Tensor) -> Tensor:
        """Corrected logits, of the shape the classifier gives."""
        # Columns are dimension -1 of a linear layer's logits and -3 of a convolution's.
        dim = 1 - self.classifier.weight.dim()
        categories, others = self.classifier(features).tensor_split((self.num_classes,), dim=dim)
        return torch.cat([self.correct(categories, features), others], dim=dim)

    @abstractmethod
    def correct(self, logits: Tensor, features: Tensor) -> Tensor:
        """The categories' logits (..., C) after correction."""

    def _new_parameter(self, value: float) -> nn.Parameter:
        return nn.Parameter(self.classifier.weight.new_full((self.num_classes,), value))

    def _per_column(self, vector: Tensor) -> Tensor:
        """(C,) in the shape that meets the columns of the logits."""
        return vector.reshape(-1, *[1] * (self.classifier.weight.dim() - 2))


class ScaledClassifier(_SecondStage):
    r"""LWS: a frozen classifier with one learnable scale per category, 1 at first.

    $$ f_j \, (w_j \cdot x + b_j) \quad \text{or, with scale\_bias=False,} \quad f_j \, w_j \cdot x + b_j $$

    Args:
        classifier: the trained layer; it is frozen.
        scale_bias: whether f_j multiplies b_j too.
        num_classes: C, if the classifier has further columns.
    """

    def __init__(self, classifier: Classifier, *, scale_bias: bool = True, num_classes: int | None = None) -> None:
        super().__init__(classifier, num_classes)
        self.scale_bias = scale_bias
        self.scale = self._new_parameter(1.0)  # (C,)  f_j

    def correct(self, logits: Tensor, features: Tensor) -> Tensor:
        """Logits times scale; the bias is taken out of the product where it is not to be scaled."""
        scale = self._per_column(self.scale)
        if self.scale_bias or self.classifier.bias is None:
            return scale * logits
        return scale * logits + (1 - scale) * self._per_column(self.classifier.bias[: self.num_classes])

    @torch.no_grad()
    def folded(self) -> nn.Linear | nn.Conv2d:
        """A plain layer that gives the same logits: a frozen copy of the classifier with the scales multiplied in."""
        if isinstance(self.classifier, CosineClassifier):
            raise TypeError("a CosineClassifier ignores the norm of its weights: scales cannot be folded into them")
        layer = copy.deepcopy(self.classifier)
        layer.weight[: self.num_classes] *= _per_row(self.scale, layer.weight)
        if self.scale_bias and layer.bias is not None:
            layer.bias[: self.num_classes] *= self.scale
        return layer


class AlignedClassifier(_SecondStage):
    r"""DisAlign: a frozen classifier whose logits are scaled and shifted as far as the sample's confidence allows.

    $$ (1 + c s_j) z_j + c b_j \quad \text{or} \quad c (s_j z_j + b_j) + (1 - c) z_j $$

    with the confidence c = sigmoid(v.x + v_0). The first form is `"residual"`, the layer published for classifiers and
    detectors; the second is `"interpolated"`, which the paper and its segmentation head use and which starts from the
    classifier's own logits.

    Args:
        classifier: the trained layer; it is frozen.
        form: `"residual"` or `"interpolated"`.
        num_classes: C, if the classifier has further columns.
    """

    def __init__(
        self,
        classifier: Classifier,
        *,
        form: Literal["residual", "interpolated"] = "residual",
        num_classes: int | None = None,
    ) -> None:
        if form not in ("residual", "interpolated"):
            raise ValueError(f'form must be "residual" or "interpolated", got {form!r}')
        super().__init__(classifier, num_classes)
        self.form = form
        self.scale = self._new_parameter(1.0)  # (C,)  s_j
        self.shift = self._new_parameter(0.0)  # (C,)  b_j
        self.confidence = _confidence_layer(classifier)

    def correct(self, logits: Tensor, features: Tensor) -> Tensor:
        """Logits scaled and shifted in proportion to the confidence."""
        confidence: Tensor = self.confidence(features).sigmoid()
        scale, shift = self._per_column(self.scale), self._per_column(self.shift)
        if self.form == "residual":
            return (1 + confidence * scale) * logits + confidence * shift
        return confidence * (scale * logits + shift) + (1 - confidence) * logits


def _confidence_layer(classifier: Classifier) -> nn.Module:
    """v and v_0, with the published start: 0.1 everywhere and 0."""
    weight = classifier.weight
    layer: nn.Linear | nn.Conv2d
    if isinstance(classifier, nn.Conv2d):
        layer = nn.Conv2d(weight.shape[1], 1, kernel_size=1, device=weight.device, dtype=weight.dtype)
    else:
        layer = nn.Linear(weight.shape[1], 1, device=weight.device, dtype=weight.dtype)
    for name, parameter in layer.named_parameters():
        nn.init.constant_(parameter, 0.1 if name == "weight" else 0.0)
    return layer


def _find_classifier(model: nn.Module, path: str) -> Classifier:
    modules = dict(model.named_modules(remove_duplicate=False))
    modules.pop("")  # the model itself cannot be replaced in place
    if path not in modules:
        nearest = difflib.get_close_matches(path, modules, n=3, cutoff=0.0)
        raise ValueError(f"model has no module {path!r}; nearest names: {', '.join(nearest) or 'none'}")
    module = modules[path]
    if isinstance(module, nn.Linear | CosineClassifier) or (isinstance(module, nn.Conv2d) and _is_pointwise(module)):
        return module
    raise TypeError(f"{path} must be an nn.Linear, a 1x1 nn.Conv2d or a CosineClassifier, got {module}")


def _is_pointwise(layer: nn.Conv2d) -> bool:
    geometry = (layer.kernel_size, layer.stride, layer.padding, layer.groups)
    return geometry == ((1, 1), (1, 1), (0, 0), 1)


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever the model holds `old`; a shared classifier has several paths."""
    paths = [path for path, module in model.named_modules(remove_duplicate=False) if module is old]
    for path in paths:
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, new)


def _check_batch_norm(batch_norm: str) -> None:
    if batch_norm not in ("frozen", "moving"):
        raise ValueError(f'batch_norm must be "frozen" or "moving", got {batch_norm!r}')


def _freeze(model: nn.Module, batch_norm: BatchNormMode) -> None:
    model.requires_grad_(False)
    # An optimiser would still apply a gradient left over from the first stage.
    model.zero_grad(set_to_none=True)
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            _pin(module, frozen=batch_norm == "frozen")


def _pin(module: _BatchNorm, *, frozen: bool) -> None:
    """Keep `module` in evaluation mode, or undo that.

    A hook that is a function of this file survives `train()`, deepcopy and pickle, and leaves the state_dict alone.
    """
    for key, hook in list(module._forward_pre_hooks.items()):
        if hook is _evaluate:
            del module._forward_pre_hooks[key]
    if frozen:
        module.eval()
        module.register_forward_pre_hook(_evaluate)


def _evaluate(module: nn.Module, _inputs: Any) -> None:
    if module.training:
        module.eval()


def _num_categories(classifier: Classifier, num_classes: int | None) -> int:
    num_columns = len(classifier.weight)
    if num_classes is None:
        return num_columns
    if not 1 <= num_classes <= num_columns:
        raise ValueError(f"num_classes must be in 1 ... {num_columns}, the classifier's columns, got {num_classes}")
    return num_classes


def _per_row(vector: Tensor, weight: Tensor) -> Tensor:
    """(C,) as (C, 1, ...), to meet the rows of a weight."""
    return vector.reshape(-1, *[1] * (weight.dim() - 1))


def _check_power(power: float) -> None:
    if not (math.isfinite(power) and power >= 0):
        raise ValueError(f"power must be finite and not negative, got {power}")
