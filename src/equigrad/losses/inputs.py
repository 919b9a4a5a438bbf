"""What a loss accepts. Every error says what was expected and what came."""

import math
from collections.abc import Sequence
from typing import Literal, NoReturn, get_args

import torch
from torch import Tensor

from equigrad.labels import BACKGROUND, IGNORE

CategoryNumbers = Sequence[float] | Tensor
"""C numbers that a user gives, one for each category."""

PerCategory = Tensor | float
"""One number for all categories, or (C,) of them."""

Reduction = Literal["mean", "sum", "none"]
"""How a loss module combines its samples."""

FusedReduction = Literal["mean", "sum"]
"""How a function of `functional` combines its samples; it never holds one value for each."""

ROW_SUM_TOLERANCE = 2**-8
"""How far from 1 the probabilities of a soft label may add up to: bfloat16 rounds them by 2^-9, mixup once more."""


def check_number(name: str, value: float, *, minimum: float = 0.0, above: float | None = None) -> None:
    """Refuse a hyper-parameter that is no finite number >= minimum, or > above if that is given."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    in_range = value >= minimum if above is None else value > above
    if not (math.isfinite(value) and in_range):
        bound = f">= {minimum:g}" if above is None else f"> {above:g}"
        raise ValueError(f"{name} must be finite and {bound}, got {value}")


def check_choice(name: str, value: str, choices: object) -> None:
    """Refuse a word that is not one of the choices, a `Literal`."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {list(get_args(choices))}, got {value!r}")


def check_ignore_index(ignore_index: int) -> None:
    """Refuse an `ignore_index` that is no int."""
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise TypeError(f"ignore_index must be an int, got {type(ignore_index).__name__}")


def check_label_smoothing(label_smoothing: float) -> None:
    """Refuse a label smoothing outside [0, 1)."""
    check_number("label_smoothing", label_smoothing)
    if label_smoothing >= 1:
        raise ValueError(f"label_smoothing must be within [0, 1), got {label_smoothing}")


def per_category(name: str, values: CategoryNumbers) -> Tensor:
    """One finite number >= 0 for each category, not all 0, as (C,) float64; refuse anything else."""
    try:
        vector = torch.as_tensor(values, dtype=torch.float64, device="cpu").detach().clone()
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


# The functions below run in every step. They call no others unless something is wrong: a loss is four frames deep.


def check_logits(logits: Tensor, *vectors: PerCategory | None) -> None:
    """Refuse logits that are not floating (N, C, ...) with the C of the category vectors that go with them."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits must be a Tensor, got {type(logits).__name__}")
    if not logits.is_floating_point():
        raise ValueError(f"logits must be floating point, got {logits.dtype}")
    wanted: int | str = "C"
    for vector in vectors:
        if not isinstance(vector, Tensor) or vector.dim() == 0:
            continue
        if vector.dim() > 1:
            raise ValueError(f"what categories have must be one number or (C,) of them, got {tuple(vector.shape)}")
        if logits.dim() >= 2 and vector.numel() == logits.shape[1] and vector.device != logits.device:
            raise ValueError(
                f"logits are on {logits.device} but the loss is on {vector.device}: move it with loss.to(device)"
            )
        if logits.dim() < 2 or vector.numel() != logits.shape[1]:
            wanted = vector.numel()
            break
    if logits.dim() < 2 or wanted != "C" or logits.shape[1] == 0:
        raise ValueError(f"logits must be (N, {wanted}) or (N, {wanted}, d1, ...), got {tuple(logits.shape)}")


def has_target_matrix(logits: Tensor, labels: Tensor) -> bool:
    """Whether `labels` is a number for each logit, multi-label targets or soft labels, instead of class indices."""
    return (
        isinstance(labels, Tensor)
        and isinstance(logits, Tensor)
        and labels.shape == logits.shape
        and (labels.is_floating_point() or labels.dtype == torch.bool)
    )


def check_labels(
    logits: Tensor,
    labels: Tensor,
    *,
    background: bool,
    multi_label: bool = False,
    soft: bool = False,
    ignore_index: int = IGNORE,
    values: bool = True,
) -> tuple[Tensor, int]:
    """Refuse labels that do not fit the logits; return them with `ignore_index` replaced by IGNORE, and the least.

    The least is IGNORE where it is not known: to ask a device would make the host wait.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices, or a number for each logit; the pass checks the values of those, block by block.
        background: whether a sample may be BACKGROUND.
        multi_label: whether 0/1 targets of the logits' shape, floating or bool, are allowed.
        soft: whether probabilities of the logits' shape are allowed.
        ignore_index: the label of samples that do not count.
        values: False checks shape, dtype and device alone, and leaves the labels as they are.
    """
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels must be a Tensor, got {type(labels).__name__}")
    if labels.device != logits.device:
        raise ValueError(f"labels must be on the device of the logits, {logits.device}, got {labels.device}")
    if labels.shape == logits.shape:
        is_float = labels.is_floating_point()
        if (multi_label and (is_float or labels.dtype == torch.bool)) or (soft and is_float):
            return labels, IGNORE
    samples = (logits.shape[0], *logits.shape[2:])
    if labels.shape != samples or labels.dtype != torch.int64:
        matrix = "multi-label float or bool" if multi_label else "soft labels, floating," if soft else ""
        also = f", or {matrix} of shape {tuple(logits.shape)}" if matrix else ""
        raise ValueError(
            f"labels must be int64 of shape {samples}{also} for logits of shape {tuple(logits.shape)}, "
            f"got {labels.dtype} of shape {tuple(labels.shape)}"
        )
    if torch.compiler.is_compiling():  # the operator looks at the values when it runs
        return labels if ignore_index == IGNORE else labels.masked_fill(labels == ignore_index, IGNORE), IGNORE
    if not values:  # the kernel looks at them
        return labels, IGNORE
    lowest, num_classes = BACKGROUND if background else 0, logits.shape[1]
    is_host = labels.device.type == "cpu" and labels.numel() > 0
    if is_host and not lowest <= ignore_index < num_classes:
        smallest, greatest = labels.aminmax()
        least = smallest.item()
        if least >= lowest and greatest.item() < num_classes:
            return labels, int(least)  # one operation for the usual batch
    is_ignored = labels == ignore_index
    allowed = (labels >= lowest) & (labels < num_classes) | is_ignored
    if allowed.is_cuda or not bool(allowed.all()):
        check_values(allowed, labels, label_message(num_classes, background=background, ignore_index=ignore_index))
    labels = labels if ignore_index == IGNORE else labels.masked_fill(is_ignored, IGNORE)
    return labels, int(labels.min()) if is_host else IGNORE


def label_message(num_classes: int, *, background: bool, ignore_index: int) -> str:
    """What class indices must be."""
    names = f"BACKGROUND (-1) or ignore_index ({ignore_index})" if background else f"or ignore_index ({ignore_index})"
    message = f"labels must be 0 ... {num_classes - 1}, {names}"
    if not background:
        message += "; a softmax loss has no background, wrap it in WithObjectness or label such rows ignore_index"
    return message


def refuse_soft_labels(logits: Tensor, labels: Tensor, reason: str) -> None:
    """Refuse probabilities of the logits' shape where the formula needs the one category of a sample."""
    if has_target_matrix(logits, labels):
        raise ValueError(f"labels must be class indices, soft labels are not defined here: {reason}")


def require_quality(logits: Tensor, labels: Tensor, quality: Tensor | None) -> None:
    """Refuse class indices without a quality, where `functional` would take None for the plain focal loss."""
    if not isinstance(quality, Tensor) and not (quality is None and has_target_matrix(logits, labels)):
        raise TypeError(
            f"quality must be a Tensor, got {type(quality).__name__}; only soft targets of the logits' shape need none"
        )


def check_quality(logits: Tensor, labels: Tensor, quality: Tensor, *, values: bool = True) -> None:
    """Refuse a quality that is not floating, in [0, 1], one number a sample (or an entry of multi-label targets)."""
    if not isinstance(quality, Tensor):
        raise TypeError(f"quality must be a Tensor, got {type(quality).__name__}")
    samples = (logits.shape[0], *logits.shape[2:])
    shapes = [samples, tuple(logits.shape)] if labels.shape == logits.shape else [samples]
    if tuple(quality.shape) not in shapes or not quality.is_floating_point():
        wanted = " or ".join(map(str, shapes))
        raise ValueError(
            f"quality must be floating point of shape {wanted}, got {quality.dtype} of shape {tuple(quality.shape)}"
        )
    if quality.device != logits.device:
        raise ValueError(f"quality must be on the device of the logits, {logits.device}, got {quality.device}")
    if not values or quality.numel() == 0:
        return
    if quality.device.type == "cpu" and not torch.compiler.is_compiling():
        least, greatest = quality.aminmax()
        if least.item() >= 0 and greatest.item() <= 1:
            return  # one operation for the usual batch
    check_values((quality >= 0) & (quality <= 1), quality, "quality must be within [0, 1]")


def refuse_smoothed_targets(logits: Tensor, labels: Tensor, quality: Tensor | None) -> None:
    """Refuse soft targets above 0 in every category of every sample, such as those of label smoothing.

    An entry with a target above 0 is a positive. Without a negative the ratio is infinite, and a loss that follows it
    would be the plain one for ever. A mixture of samples may well cover one or two categories.
    """
    if not has_target_matrix(logits, labels) or labels.numel() == 0 or logits.dim() < 2 or logits.shape[1] <= 2:
        return
    is_host = labels.is_cpu and not torch.compiler.is_compiling()
    if is_host and bool((labels[:1] == 0).any()):  # one sample shows it, as a rule
        return
    soft = quality if isinstance(quality, Tensor) else labels
    is_smoothed = (labels > 0).all() & ((soft > 0) & (soft < 1)).any()
    message = (
        f"soft targets must be 0 for the categories that a sample does not have, got targets above 0 in all "
        f"{logits.shape[1]} categories of all samples: leave out label smoothing"
    )
    if not is_host:
        torch._assert_async(~is_smoothed, message)
    elif bool(is_smoothed):
        raise ValueError(message)


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


def refuse_normalizer(normalizer: object) -> NoReturn:
    """Say why a normalizer is not one number."""
    if isinstance(normalizer, Tensor):
        raise ValueError(f"normalizer must be one number, got a Tensor of shape {tuple(normalizer.shape)}")
    raise TypeError(f"normalizer must be a number, got {type(normalizer).__name__}")


def divisor_of(
    logits: Tensor,
    labels: Tensor,
    reduction: FusedReduction,
    normalizer: float | Tensor | None,
    *,
    lowest_label: int = IGNORE,
) -> Tensor | float | None:
    """What a loss divides its sum by: the normalizer, the counted samples ("mean") or nothing ("sum").

    A Tensor is () float64. Where the host may look at values, on a CPU, what is no Tensor stays a number. A normalizer
    that needs no conversion is returned itself, so that `one_batch` sees that several calls share it.

    Args:
        logits: (N, C, ...).
        labels: those that `check_labels` returned.
        reduction: "mean" or "sum".
        normalizer: D, in place of either.
        lowest_label: the least of the labels where it is known; above IGNORE, all samples count.
    """
    is_host = logits.device.type == "cpu" and not torch.compiler.is_compiling()
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction must be "mean" or "sum" here, got {reduction!r}')
    if normalizer is None:
        if reduction == "sum":
            return None
        if labels.shape == logits.shape or lowest_label > IGNORE:  # every sample counts
            count = logits.numel() / logits.shape[1]
            return count if is_host else torch.full((), count, dtype=torch.float64, device=logits.device)
        counted = (labels != IGNORE).sum(dtype=torch.float64)
        return counted.item() if is_host else counted
    message = "normalizer must be finite and > 0"
    if isinstance(normalizer, Tensor) and normalizer.numel() == 1:
        value = normalizer.detach() if normalizer.requires_grad else normalizer
        value = value.to(logits.device, torch.float64)
        value = value.reshape(()) if value.dim() else value
    elif isinstance(normalizer, int | float) and not isinstance(normalizer, bool):
        if is_host:
            if not 0 < normalizer < math.inf:
                raise ValueError(f"{message}, got {normalizer:g}")
            return float(normalizer)
        # Filled on the device: to copy a number there, the host would wait.
        value = torch.full((), normalizer, dtype=torch.float64, device=logits.device)
    else:
        refuse_normalizer(normalizer)
    if torch.compiler.is_compiling():
        return value
    if value.is_cuda:
        torch._assert_async((value > 0) & value.isfinite(), message)
    elif not 0 < value.item() < math.inf:
        raise ValueError(f"{message}, got {value.item():g}")
    return value
