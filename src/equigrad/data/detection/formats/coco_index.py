"""Reading COCO and LVIS files through an index, which makes every start after the first fast."""

import os
from functools import partial
from pathlib import Path

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.index import MIN_BYTES, indexed
from equigrad.data.detection.index_columns import from_columns, to_columns


def indexed_coco(file: str | os.PathLike[str], *, min_bytes: int = MIN_BYTES) -> DetectionData:
    """What `read_coco` gives; the arrays of a large file are mapped from its index and cannot be written to.

    Args:
        file: in the format of COCO or LVIS.
        min_bytes: size of a file from which an index is kept.
    """
    file = Path(file)
    if not file.is_file():
        return read_coco(file)  # raises the error
    read, unpack = partial(read_coco, file), partial(from_columns, source=file)
    return indexed([file], "coco", read=read, pack=to_columns, unpack=unpack, min_bytes=min_bytes)
