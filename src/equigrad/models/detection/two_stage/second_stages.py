"""Second stages of detectors: a new classifier on the representation of a finished run.

    load_representation(model, state)                      # of the first stage; classifier and loss stay new
    retrain_classifier(model, CLASSIFIER)                  # equigrad.decoupling: cRT, or BAGS with its loss

    model.load_state_dict(state)
    learn_scales(model, CLASSIFIER, scale_bias=False, num_classes=C)      # LWS, as published for detectors

    replace_classifier(model, GroupedSoftmaxLoss(counts), GroupedSoftmaxScores(counts))      # BAGS in a model at hand
    retrain_classifier(model, CLASSIFIER)

"Better representation" is the same from a run with an equalization loss.
"""

from collections.abc import Mapping

from torch import Tensor, nn

from equigrad.models.detection.two_stage.rcnn import RCNN
from equigrad.models.detection.two_stage.roi_head import MakeClassifier, RoIClassifier
from equigrad.models.scores import Scores

CLASSIFIER = "roi_heads.box_predictor.cls_score"
"""Path of the classifier in an `RCNN`."""

_NEW = (f"{CLASSIFIER}.", "roi_heads.classification_loss.")


def load_representation(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load all weights of a first stage but those of its classifier and the state of its loss.

    Raises:
        ValueError: naming a weight that is missing, unknown or of another shape.
    """
    kept = {name: value for name, value in state.items() if not name.startswith(_NEW)}
    own = {name: value for name, value in model.state_dict().items() if not name.startswith(_NEW)}
    for name in sorted(own.keys() ^ kept.keys()):
        raise ValueError(f"the first stage {'has no' if name in own else 'has an unknown'} weight {name}")
    for name, value in kept.items():
        if value.shape != own[name].shape:
            shapes = f"{tuple(own[name].shape)}, got {tuple(value.shape)}"
            raise ValueError(f"weight {name} of the first stage must be {shapes}")
    model.load_state_dict(kept, strict=False)


def replace_classifier(
    model: RCNN,
    classification_loss: nn.Module,
    scores: Scores,
    *,
    classifier: MakeClassifier = RoIClassifier,
    background_column: int | None = None,
    divide_by_rois: bool = False,
) -> nn.Module:
    """Give a trained detector another loss, other scores and a new classifier for them; see `RoIHead`.

    Returns:
        The new classifier, on the device of the old one.
    """
    head = model.roi_heads
    weight = head.box_predictor.bbox_pred.weight
    head.classify_with(
        classification_loss.to(weight.device),
        scores,
        background_column=background_column,
        divide_by_rois=divide_by_rois,
    )
    layer = classifier(head.num_features, scores.num_logits(head.num_classes)).to(weight)
    head.box_predictor.cls_score = layer.train(model.training)
    return layer
