"""Classification data: lists of images with labels, where their files are stored, transforms and checks."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.data.images.checks import (
        check_classification as check_classification,
        check_images as check_images,
        check_overlap as check_overlap,
    )
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
    from equigrad.data.images.stores import (
        ArrayStore as ArrayStore,
        FolderStore as FolderStore,
        ImageStore as ImageStore,
        MemoryStore as MemoryStore,
        ZipStore as ZipStore,
        open_store as open_store,
    )
    from equigrad.data.images.transforms import (
        evaluation_transform as evaluation_transform,
        small_evaluation_transform as small_evaluation_transform,
        small_train_transform as small_train_transform,
        train_transform as train_transform,
        whole_image_transform as whole_image_transform,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
