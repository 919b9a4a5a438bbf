"""Detection and instance segmentation data: boxes, masks, file formats, transforms and checks."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.data.detection.batches import collate_detection as collate_detection
    from equigrad.data.detection.checks import (
        check_detection as check_detection,
        check_test_set as check_test_set,
    )
    from equigrad.data.detection.data import Categories as Categories, DetectionData as DetectionData
    from equigrad.data.detection.dataset import DetectionDataset as DetectionDataset
    from equigrad.data.detection.formats.coco_json import read_coco as read_coco, write_coco as write_coco
    from equigrad.data.detection.formats.openimages import (
        OpenImagesData as OpenImagesData,
        read_openimages as read_openimages,
    )
    from equigrad.data.detection.formats.voc import convert_voc as convert_voc
    from equigrad.data.detection.formats.voc_writing import write_voc as write_voc
    from equigrad.data.detection.formats.yolo import convert_yolo as convert_yolo
    from equigrad.data.detection.formats.yolo_writing import write_yolo as write_yolo
    from equigrad.data.detection.geometry import boxes_to_original as boxes_to_original
    from equigrad.data.detection.mosaic import yolox_train as yolox_train
    from equigrad.data.detection.stats import DetectionStats as DetectionStats, detection_stats as detection_stats
    from equigrad.data.detection.transformed_dataset import TransformedDataset as TransformedDataset
    from equigrad.data.detection.transforms import (
        evaluation_transform as evaluation_transform,
        letterbox as letterbox,
        train_transform as train_transform,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
