"""Detection data in any of the known forms, given as a COCO file: JSON as it is, VOC and YOLO folders converted."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from equigrad.data.detection.data import DetectionData
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.voc import convert_voc, is_voc
from equigrad.data.detection.formats.yolo import convert_yolo, is_yolo, refuse_settings_file
from equigrad.data.images.stores import ZipStore, zip_parts

Layout = Literal["coco", "voc", "yolo"]
Names = Path | Sequence[str]  # a file of category names, or the names


def detection_layout(source: Path) -> Layout | None:
    """Which form of detection data a path has: a COCO or LVIS file, a VOC or a YOLO folder; None if it is none.

    ValueError for a VOC or YOLO folder in an archive, which would otherwise pass for folders of images, and for a
    YOLO folder's `data.yaml`, which would pass for a list of them.
    """
    refuse_settings_file(source)
    if source.suffix == ".json":
        return "coco"
    if (parts := zip_parts(source)) is not None:
        _check_archive(source, ZipStore(*parts).paths())
    if not source.is_dir():
        return None
    if is_voc(source):
        return "voc"
    return "yolo" if is_yolo(source) else None


def _check_archive(source: Path, paths: Sequence[str]) -> None:
    for folder, suffix, layout in (("Annotations", ".xml", "VOC"), ("labels", ".txt", "YOLO")):
        if any(f"/{folder}/" in f"/{path}" and path.endswith(suffix) for path in paths):
            raise ValueError(f"{source}: has a {layout} folder, which is read only unpacked: unpack it and name it")


def convert_to_coco(
    source: Path, layout: Layout, output: Path, names: Names | None = None, split: str | None = None
) -> Path:
    """Write a VOC or YOLO folder as a COCO file.

    Args:
        source: the folder.
        layout: its form.
        output: the file to write.
        names: the category names, or a file of them; None finds them in the folder.
        split: split of a VOC folder: `ImageSets/Main/<split>.txt`.
    """
    refuse_settings_file(source)
    if layout == "voc":
        return convert_voc(source, output, names, split=split)
    if split is not None:
        raise ValueError("--split: only voc has lists of splits; name the folder of the split, FOLDER/images/train")
    return convert_yolo(source, output, names)


@contextmanager
def as_coco(
    source: Path, layout: Layout, names: Names | None = None, split: str | None = None
) -> Iterator[tuple[Path, Path | None]]:
    """A COCO file with the data, which is temporary for folders, and the folder of images of a VOC or YOLO folder."""
    if layout == "coco":
        for option, value in (("--names", names), ("--split", split)):
            if value is not None:
                raise ValueError(f"{option} {value}: only VOC and YOLO folders take it, {source} is a COCO file")
        yield source, None
        return
    with tempfile.TemporaryDirectory(prefix="equigrad_") as folder:
        yield convert_to_coco(source, layout, Path(folder, "annotations.json"), names, split), source


def read_source(file: Path, source: Path) -> DetectionData:
    """Read the COCO file of a source; messages name the source."""
    return replace(read_coco(file), source=str(source))
