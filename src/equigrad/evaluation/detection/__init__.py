"""Average precision of boxes and masks by the rules of LVIS, COCO and OpenImages."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.evaluation.detection.annotations import Annotations as Annotations
    from equigrad.evaluation.detection.evaluator import (
        DetectionEvaluator as DetectionEvaluator,
        evaluate as evaluate,
        evaluate_predictions as evaluate_predictions,
        load_predictions as load_predictions,
    )
    from equigrad.evaluation.detection.openimages import (
        OpenImagesEvaluator as OpenImagesEvaluator,
        OpenImagesRow as OpenImagesRow,
    )
    from equigrad.evaluation.detection.prediction_files import (
        read_predictions as read_predictions,
        write_predictions as write_predictions,
    )
    from equigrad.evaluation.detection.prediction_shards import (
        PredictionWriter as PredictionWriter,
        read_shards as read_shards,
    )
    from equigrad.evaluation.detection.result import DetectionResult as DetectionResult, DetectionRow as DetectionRow
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
