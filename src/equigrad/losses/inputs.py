"""What a loss accepts. Every error says what was expected and what came."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from equigrad.labels import BACKGROUND, IGNORE

CategoryNumbers = Sequence[float] | Tensor
"""C numbers that a user gives, one for each category."""

PerCategory = Tensor | float
"""One number for all categories, or (C,) of them."""

REDUCTIONS = ("mean", "sum")


def check_number(name: str, value: float, *, minimum: float = 0.0, above: float | None = None) -> None:
    """Refuse a hyper-parameter that is no finite number >= minimum, or > above if that is given."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    in_range = value >= minimum if above is None else value > above
    if not (math.isfinite(value) and in_range):
        bound = f">= {minimum:g}" if above is None else f"> {above:g}"
        raise ValueError(f"{name} must be finite and {bound}, got {value}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}")


def per_category(name: str, values: CategoryNumbers) -> Tensor:
    """One finite number >= 0 for each category, not all 0, as (C,) float64; refuse anything else."""
    try:
        vector = torch.as_tensor(values, dtype=torch.float64).detach().cpu().clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a sequence or a Tensor of C numbers, got {type(values).__name__}") from error
    if vector.dim() != 1 or vector.numel() == 0:
        raise ValueError(f"{name} must be (C,), one number for each category, got shape {tuple(vector.shape)}")
    check_values(vector.isfinite() & (vector >= 0), vector, f"{name} must be finite and >= 0")
    if not bool(vector.any()):
        raise ValueError(f"{name} must not be all 0, got {vector.numel()} zeros")
    return vector


def at_least_one_sample(category_counts: Tensor) -> Tensor:
    """Counts in which a category without samples has one; or, if they are shares, that of the rarest with samples."""
    return category_counts.clamp(min=min(1.0, float(category_counts[category_counts > 0].min())))


def check_logits(logits: Tensor, *vectors: PerCategory | None) -> None:
    """Refuse logits that are not floating (N, C, ...) with the C of the category vectors that go with them."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a Tensor, got {type(logits).__name__}")
    if not logits.is_floating_point():
        raise ValueError(f"logits must be floating point, got {logits.dtype}")
    per_category = [vector for vector in vectors if isinstance(vector, Tensor) and vector.dim() == 1]
    wanted = str(per_category[0].numel()) if per_category else "C"
    if logits.dim() < 2 or any(vector.numel() != logits.shape[1] for vector in per_category):
        raise ValueError(f"logits must be (N, {wanted}) or (N, {wanted}, d1, ...), got {tuple(logits.shape)}")
    for vector in per_category:
        if vector.device != logits.device:
            raise ValueError(
                f"logits are on {logits.device} but the loss is on {vector.device}: move it with loss.to(device)"
            )


def is_multi_label(logits: Tensor, labels: Tensor) -> bool:
    """Whether `labels` holds 0/1 targets of the logits' shape instead of class indices."""
    return labels.shape == logits.shape and (labels.is_floating_point() or labels.dtype == torch.bool)


def check_labels(logits: Tensor, labels: Tensor, *, background: bool, multi_label: bool) -> None:
    """Refuse labels that are neither class indices of the samples nor, where allowed, multi-label targets."""
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels must be a Tensor, got {type(labels).__name__}")
    if labels.device != logits.device:
        raise ValueError(f"labels must be on the device of the logits, {logits.device}, got {labels.device}")
    if multi_label and is_multi_label(logits, labels):
        return
    samples = (logits.shape[0], *logits.shape[2:])
    if labels.shape != samples or labels.dtype != torch.int64:
        also = f", or multi-label float or bool of shape {tuple(logits.shape)}" if multi_label else ""
        raise ValueError(
            f"labels must be int64 of shape {samples}{also} for logits of shape {tuple(logits.shape)}, "
            f"got {labels.dtype} of shape {tuple(labels.shape)}"
        )
    lowest = BACKGROUND if background else 0
    if labels.device.type == "cpu" and labels.numel():
        least, greatest = labels.aminmax()
        if least >= lowest and greatest < logits.shape[1]:
            return  # one operation for the usual batch
    allowed = (labels >= lowest) & (labels < logits.shape[1]) | (labels == IGNORE)
    names = "BACKGROUND (-1) or IGNORE (-100)" if background else "or IGNORE (-100)"
    message = f"labels must be 0 ... {logits.shape[1] - 1}, {names}"
    if not background:
        message += "; a softmax loss has no background, wrap it in WithObjectness or label such rows IGNORE"
    check_values(allowed, labels, message)


def check_quality(logits: Tensor, labels: Tensor, quality: Tensor) -> None:
    """Refuse a quality that is not floating, in [0, 1], one number a sample (or an entry of multi-label targets)."""
    if not isinstance(quality, Tensor):
        raise TypeError(f"quality must be a Tensor, got {type(quality).__name__}")
    samples = (logits.shape[0], *logits.shape[2:])
    shapes = [samples, tuple(logits.shape)] if is_multi_label(logits, labels) else [samples]
    if tuple(quality.shape) not in shapes or not quality.is_floating_point():
        wanted = " or ".join(map(str, shapes))
        raise ValueError(
            f"quality must be floating point of shape {wanted}, got {quality.dtype} of shape {tuple(quality.shape)}"
        )
    if quality.device != logits.device:
        raise ValueError(f"quality must be on the device of the logits, {logits.device}, got {quality.device}")
    check_values((quality >= 0) & (quality <= 1), quality, "quality must be within [0, 1]")


def check_values(allowed: Tensor, values: Tensor, message: str) -> None:
    """Refuse values outside their range: at once on the CPU, by an asynchronous device assert on a GPU.

    Reading `allowed` back would make the host wait for a CUDA device in every step. There the kernel raises the assert
    itself and the error surfaces at the next synchronisation, as an index out of range does in `F.cross_entropy`.
    """
    if allowed.is_cuda:
        torch._assert_async(allowed.all(), message)
    elif not bool(allowed.all()):
        first = int((~allowed).flatten().nonzero()[0])
        raise ValueError(f"{message}; got {values.flatten()[first].item()} at flat index {first}")


def divisor_of(logits: Tensor, labels: Tensor, reduction: str, normalizer: float | Tensor | None) -> Tensor | None:
    """What a loss divides its sum by: the normalizer, the counted samples ("mean") or nothing ("sum"); float64."""
    check_choice("reduction", reduction, REDUCTIONS)
    if isinstance(normalizer, Tensor):
        if normalizer.numel() != 1:
            raise ValueError(f"normalizer must be one number, got a Tensor of shape {tuple(normalizer.shape)}")
        value = normalizer.detach().to(logits.device, torch.float64).reshape(())
        check_values((value > 0) & value.isfinite(), value, "normalizer must be finite and > 0")
        return value
    if normalizer is not None:
        check_number("normalizer", normalizer, above=0)
        return torch.tensor(float(normalizer), dtype=torch.float64, device=logits.device)
    if reduction == "sum":
        return None
    if is_multi_label(logits, labels):
        return torch.tensor(logits.numel() / logits.shape[1], dtype=torch.float64, device=logits.device)
    return (labels != IGNORE).sum(dtype=torch.float64)
