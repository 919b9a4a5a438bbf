"""Second stages of detectors: a new classifier on the representation of a finished run.

    load_representation(model, state)                      # of the first stage; classifier and loss stay new
    retrain_classifier(model, CLASSIFIER)                  # equigrad.decoupling: cRT, or BAGS with its loss

    model.load_state_dict(state)
    learn_scales(model, CLASSIFIER, scale_bias=False, num_classes=C)      # LWS, as published for detectors

The paper's "better representation" is the same second stage on a run with an equalization loss.
"""

from collections.abc import Mapping

from torch import Tensor, nn

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
