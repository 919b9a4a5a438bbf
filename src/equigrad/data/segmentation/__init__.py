"""Semantic segmentation data: images with label maps, transforms, checks, and ADE20K-LT."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.data.segmentation.ade20k_lt import (
        long_tailed_subset as long_tailed_subset,
        write_long_tailed as write_long_tailed,
    )
    from equigrad.data.segmentation.category_pixels import (
        CategoryPixels as CategoryPixels,
        count_pixels as count_pixels,
    )
    from equigrad.data.segmentation.checks import (
        check_label_maps as check_label_maps,
        check_segmentation as check_segmentation,
    )
    from equigrad.data.segmentation.data import (
        SegmentationData as SegmentationData,
        SegmentationDataset as SegmentationDataset,
        collate_segmentation as collate_segmentation,
    )
    from equigrad.data.segmentation.label_maps import LabelValues as LabelValues
    from equigrad.data.segmentation.readers import (
        read_ade20k as read_ade20k,
        read_camvid as read_camvid,
        read_label_folders as read_label_folders,
        read_scene_parsing as read_scene_parsing,
    )
    from equigrad.data.segmentation.transforms import (
        evaluation_transform as evaluation_transform,
        train_transform as train_transform,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
