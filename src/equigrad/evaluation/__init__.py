"""Metrics of the three tasks, overall and by frequency group, one evaluator for each.

evaluator = ClassificationEvaluator(train_counts, class_names)
evaluator.add(predictions, targets)       # batch by batch
evaluator.result()                        # {"Overall": ..., "Many": ..., "Medium": ..., "Few": ..., ...}
"""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.evaluation.classification import (
        ClassificationEvaluator as ClassificationEvaluator,
        ClassificationRow as ClassificationRow,
        calibration_error as calibration_error,
    )
    from equigrad.evaluation.detection.evaluator import (
        DetectionEvaluator as DetectionEvaluator,
        evaluate_predictions as evaluate_predictions,
        load_predictions as load_predictions,
    )
    from equigrad.evaluation.detection.openimages import (
        OpenImagesEvaluator as OpenImagesEvaluator,
        OpenImagesRow as OpenImagesRow,
    )
    from equigrad.evaluation.detection.prediction_files import write_predictions as write_predictions
    from equigrad.evaluation.detection.result import DetectionResult as DetectionResult, DetectionRow as DetectionRow
    from equigrad.evaluation.segmentation import (
        SegmentationEvaluator as SegmentationEvaluator,
        SegmentationRow as SegmentationRow,
    )
    from equigrad.evaluation.tables import write_table as write_table
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
