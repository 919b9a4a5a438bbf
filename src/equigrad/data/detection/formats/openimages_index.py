"""Reading OpenImages through an index, which also holds the sizes of its images, so that they are measured once."""

import os
from functools import partial
from pathlib import Path

import numpy as np

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.class_hierarchy import read_hierarchy
from equigrad.data.detection.formats.openimages import (
    BOXES_FILE,
    CLASSES_FILE,
    HIERARCHY_FILE,
    ID_LENGTH,
    LABELS_FILE,
    OpenImagesData,
    Split,
    read_classes,
    read_openimages,
)
from equigrad.data.detection.formats.openimages_sizes import measure_image_sizes
from equigrad.data.detection.index import indexed
from equigrad.data.detection.index_columns import category_lists, from_columns, list_columns, to_columns, typed
from equigrad.data.detection.mapped_arrays import Arrays
from equigrad.data.images.stores import open_store

MIN_BYTES = 1 << 20
"""Of CSV files: opening the images of smaller ones takes about a second."""

_NUM_COMPARED = 16  # images whose size is read again at each start


def indexed_openimages(
    root: str | os.PathLike[str],
    split: Split,
    *,
    images: str | os.PathLike[str] | None = None,
    sizes: str | os.PathLike[str] | None = None,
    min_bytes: int = MIN_BYTES,
) -> OpenImagesData:
    """What `read_openimages` gives; the arrays of large files are mapped from their index and cannot be written to.

    Args:
        root: see `read_openimages`, as for the following ones.
        split: "train" or "validation".
        images: if they are exchanged for others of other sizes, some of which are compared, the index is made anew.
        sizes: CSV file.
        min_bytes: size of the CSV files from which an index is kept.
    """
    root = Path(root)
    read = partial(read_openimages, root, split, images=images, sizes=sizes)
    names = [BOXES_FILE.format(split=split), CLASSES_FILE]
    if split == "validation":  # `read_openimages` then reads the verified labels
        names.append(LABELS_FILE.format(split=split))
    files = [root / name for name in names] + ([] if sizes is None else [Path(sizes)])
    if not all(file.is_file() for file in files) or (images is None and sizes is None):
        return read()  # raises an error that names what is missing
    measured = images if sizes is None else None
    return indexed(
        files,
        "openimages" if measured is None else f"openimages {open_store(measured).fingerprint()}",
        read=read,
        pack=_to_columns,
        unpack=partial(_from_columns, root=root, box_file=files[0], images=measured),
        min_bytes=min_bytes,
    )


def _to_columns(data: OpenImagesData) -> Arrays:
    return {
        **to_columns(data.detection),
        **list_columns("positive", data.positive),
        "image_names": data.image_names.astype(f"S{ID_LENGTH}"),
        "is_group_of": data.is_group_of,
    }


def _from_columns(arrays: Arrays, root: Path, box_file: Path, images: str | os.PathLike[str] | None) -> OpenImagesData:
    mids, _ = read_classes(root / CLASSES_FILE)
    hierarchy = read_hierarchy(root / HIERARCHY_FILE, mids)
    detection = from_columns(arrays, box_file)
    if images is not None:
        _compare_sizes(detection, images)
    return OpenImagesData(
        detection,
        image_names=typed(arrays, "image_names", f"S{ID_LENGTH}", (len(detection),)),
        mids=mids,
        is_group_of=typed(arrays, "is_group_of", "bool", (detection.num_annotations,)),
        positive=category_lists(arrays, "positive", len(detection), len(mids)),
        hierarchy=hierarchy,
    )


def _compare_sizes(data: DetectionData, images: str | os.PathLike[str]) -> None:
    chosen = np.unique(np.linspace(0, max(len(data) - 1, 0), _NUM_COMPARED).astype(np.int64))
    found = measure_image_sizes(images, [data.file_names[image] for image in chosen.tolist()])
    if not np.array_equal(found, np.stack([data.widths, data.heights], 1)[chosen]):
        raise ValueError("images have other sizes now")
