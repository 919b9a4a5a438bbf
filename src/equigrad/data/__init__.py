"""Data: readers, data sets, checks and category frequencies for classification, detection and segmentation.

    data = read_coco("train.json")                            # detection; its images are read by DetectionDataset
    images = read_images("train.txt")                         # classification: lists, folders, archives, arrays
    maps = read_label_folders("images", "labels", "names.txt")    # semantic segmentation

Transforms are in `equigrad.data.images`, `equigrad.data.detection` and `equigrad.data.segmentation`; generated data is
in `equigrad.data.glyphs`.
"""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.data.detection.batches import collate_detection as collate_detection
    from equigrad.data.detection.checks import check_detection as check_detection
    from equigrad.data.detection.data import DetectionData as DetectionData
    from equigrad.data.detection.dataset import DetectionDataset as DetectionDataset
    from equigrad.data.detection.formats.coco_json import read_coco as read_coco, write_coco as write_coco
    from equigrad.data.detection.formats.openimages import read_openimages as read_openimages
    from equigrad.data.detection.formats.voc import convert_voc as convert_voc
    from equigrad.data.detection.formats.voc_writing import write_voc as write_voc
    from equigrad.data.detection.formats.yolo import convert_yolo as convert_yolo
    from equigrad.data.detection.formats.yolo_writing import write_yolo as write_yolo
    from equigrad.data.detection.stats import detection_stats as detection_stats
    from equigrad.data.detection.transformed_dataset import TransformedDataset as TransformedDataset
    from equigrad.data.findings import Finding as Finding
    from equigrad.data.frequency import (
        Frequencies as Frequencies,
        exponential_profile as exponential_profile,
        load_frequencies as load_frequencies,
        lvis_split as lvis_split,
        pareto_profile as pareto_profile,
        pick_categories as pick_categories,
        scale_counts as scale_counts,
        shot_split as shot_split,
    )
    from equigrad.data.images.checks import check_classification as check_classification
    from equigrad.data.images.dataset import ImageDataset as ImageDataset
    from equigrad.data.images.lists import ImageList as ImageList
    from equigrad.data.images.published_lists import read_published as read_published
    from equigrad.data.images.readers import (
        read_arrays as read_arrays,
        read_cifar as read_cifar,
        read_image_folder as read_image_folder,
        read_image_list as read_image_list,
        read_images as read_images,
    )
    from equigrad.data.long_tail import long_tailed as long_tailed, with_counts as with_counts
    from equigrad.data.segmentation.category_pixels import count_pixels as count_pixels
    from equigrad.data.segmentation.checks import check_segmentation as check_segmentation
    from equigrad.data.segmentation.data import (
        SegmentationData as SegmentationData,
        SegmentationDataset as SegmentationDataset,
        collate_segmentation as collate_segmentation,
    )
    from equigrad.data.segmentation.readers import (
        read_ade20k as read_ade20k,
        read_camvid as read_camvid,
        read_label_folders as read_label_folders,
        read_scene_parsing as read_scene_parsing,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
