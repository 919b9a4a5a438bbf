"""Two-stage detectors: Faster and Mask R-CNN."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.detection.two_stage.mask_head import paste_masks as paste_masks
    from equigrad.models.detection.two_stage.rcnn import (
        RCNN as RCNN,
        faster_rcnn as faster_rcnn,
        mask_rcnn as mask_rcnn,
    )
    from equigrad.models.detection.two_stage.roi_head import RoIClassifier as RoIClassifier
    from equigrad.models.detection.two_stage.roi_inference import RoIInference as RoIInference
    from equigrad.models.detection.two_stage.roi_sampling import RoISampler as RoISampler
    from equigrad.models.detection.two_stage.roi_scores import (
        SoftmaxBackgroundScores as SoftmaxBackgroundScores,
        TwoWayObjectness as TwoWayObjectness,
        TwoWayObjectnessScores as TwoWayObjectnessScores,
    )
    from equigrad.models.detection.two_stage.second_stages import (
        CLASSIFIER as CLASSIFIER,
        load_representation as load_representation,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
