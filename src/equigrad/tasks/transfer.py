"""Weights from one model to another that differs in some parts: part by part where shapes agree, categories by name.

A part is taken as a whole or not at all: a tower of which some layers fit by chance would be worse than a new one.
The gradient statistics of the loss, and a teacher, are never taken.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn

FEATURES = "features"
"""The network before the heads, whatever a model calls it."""

_FEATURE_PATHS = ("backbone.", "pyramid.")
_ENDS_OF_FEATURES = ("fpn.extra_blocks", "fpn", "head")  # parts of their own: not every kind of model has them
_CONTAINERS = {"auxiliary", "box_predictor", "head", "levels", "mask_branch", "predictor", "roi_heads", "rpn"}
# Layers with rows for each category, by the end of their path, and how many rows a category has there.
_CATEGORY_ROWS = {"bbox_pred": 4, "classifier": 1, "cls_score": 1, "logits": 1, "mask_fcn_logits": 1}

Matches = Sequence[tuple[int, int]]
"""Pairs of a row there and a row here that stand for one category."""


class Source(NamedTuple):
    """What another model gives."""

    weights: Mapping[str, Tensor]  # with the names of models here
    categories: Sequence[str] | int  # in the order of rows; their number where names are not known
    scores: str | None  # how its logits were read


class Transfer(NamedTuple):
    """What was taken."""

    num_taken: int
    num_weights: int
    num_categories: int  # that both models have
    new_parts: tuple[str, ...]


def transfer(model: nn.Module, source: Source, categories: Sequence[str], scores: str | None) -> Transfer:
    """Load what fits; all other weights keep their initial values.

    Args:
        model: to load into.
        source: the other model.
        categories: names of the model's own.
        scores: how its logits become probabilities; with other scores, the classifier of the source does not fit.

    Raises:
        ValueError: the network before the heads does not fit.
    """
    own, theirs = _parts(model.state_dict()), _parts(source.weights)
    matches = matched_categories(source.categories, categories)
    num_there = source.categories if isinstance(source.categories, int) else len(source.categories)
    taken: dict[str, Tensor] = {}
    new_parts: list[str] = []
    for name, part in own.items():
        there = theirs.get(name, {})
        if not _has_category_rows(name, part, len(categories)):
            if misfit := _misfit(name, part, there):
                if name == FEATURES:
                    raise ValueError(misfit)
                new_parts.append(name)
            else:
                taken |= {path: there[inner][1] for inner, (path, _) in part.items()}
            continue
        rows = None
        if matches and (source.scores == scores or not _is_classifier(name)):
            rows = _matched_rows(name, part, there, matches, num_there, len(categories))
        taken |= rows or {}
        if rows is None or len(matches) < len(categories):
            num_new = len(categories) - len(matches)
            new_parts.append(name if rows is None else f"{name} ({num_new} of {len(categories)} categories)")
    model.load_state_dict(taken, strict=False)
    return Transfer(len(taken), sum(map(len, own.values())), len(matches), tuple(new_parts))


def matched_categories(theirs: Sequence[str] | int, own: Sequence[str]) -> Matches:
    """Rows of the categories that both have: by name, or all in their order where only an equal number is known."""
    if isinstance(theirs, int):
        return [(row, row) for row in range(theirs)] if theirs == len(own) else []
    row_there = {name: row for row, name in enumerate(theirs)}
    return [(row_there[name], row) for row, name in enumerate(own) if name in row_there]


_Part = dict[str, tuple[str, Tensor]]  # path inside the part: whole path, tensor


def _parts(state: Mapping[str, Tensor]) -> dict[str, _Part]:
    """The weights that can be taken, part by part."""
    parts: dict[str, _Part] = {}
    for path, value in state.items():
        if path.endswith("num_batches_tracked") or "classification_loss." in path or path.startswith("teacher."):
            continue
        name = _part_of(path)
        inner = _below_features(path) if name.startswith(FEATURES) else path.removeprefix(f"{name}.")
        parts.setdefault(name, {})[inner] = (path, value)
    return parts


def _part_of(path: str) -> str:
    if path.startswith(_FEATURE_PATHS):
        inner = _below_features(path)
        end = next((part for part in _ENDS_OF_FEATURES if inner.startswith(f"{part}.")), None)
        return FEATURES if end is None else f"{FEATURES}.{end}"
    names = path.split(".")[:-1]
    for depth, name in enumerate(names, start=1):
        if name not in _CONTAINERS and not name.isdigit():
            return ".".join(names[:depth])
    return path


def _below_features(path: str) -> str:
    """The path in the network itself: a pyramid has it as its `body`."""
    return path.partition(".")[2].removeprefix("body.")


def _misfit(name: str, part: _Part, there: _Part) -> str:
    """Why a part cannot be taken; empty if it can."""
    for inner, (_, value) in part.items():
        if inner not in there:
            return f"it has no weight {inner}"
        if value.shape != there[inner][1].shape:
            return f"{inner} must be {tuple(value.shape)}, got {tuple(there[inner][1].shape)}"
    # A classifier's network may have more at its end than a pyramid needs, but not more layers in what both have.
    blocks = {inner.partition(".")[0] for inner in part}
    more = [inner for inner in there if inner not in part and (name != FEATURES or inner.partition(".")[0] in blocks)]
    return f"it has one more weight, {more[0]}" if more else ""


def _has_category_rows(name: str, part: _Part, num_classes: int) -> bool:
    end = name.rpartition(".")[2]
    if end not in _CATEGORY_ROWS or name.startswith("rpn."):
        return False
    num_rows = min(len(value) for _, value in part.values())
    return num_rows >= num_classes * _CATEGORY_ROWS[end]  # fewer where all categories share a box or mask


def _is_classifier(name: str) -> bool:
    return not name.endswith(("bbox_pred", "mask_fcn_logits"))


def _matched_rows(
    name: str, part: _Part, there: _Part, matches: Matches, num_there: int, num_here: int
) -> dict[str, Tensor] | None:
    """The tensors of a layer with the rows of matched categories, and of background or objectness, taken over."""
    if part.keys() != there.keys():
        return None
    num_values = _CATEGORY_ROWS[name.rpartition(".")[2]]
    rows_there, rows_here = (list(rows) for rows in zip(*matches, strict=True))
    taken = {}
    for inner, (path, own) in part.items():
        other = there[inner][1]
        if own.shape[1:] != other.shape[1:]:
            return None
        num_anchors = len(own) // num_here if name.endswith(".logits") else 1
        num_more = len(own) // (num_anchors * num_values) - num_here  # columns that are no categories
        if len(other) != num_anchors * (num_there + num_more) * num_values:
            return None
        # (anchors, columns, values of a category, ...)
        new = own.detach().clone().view(num_anchors, num_here + num_more, num_values, -1)
        old = other.reshape(num_anchors, num_there + num_more, num_values, -1).to(new.dtype)
        new[:, rows_here] = old[:, rows_there]
        new[:, num_here:] = old[:, num_there:]
        taken[path] = new.view_as(own)
    return taken
