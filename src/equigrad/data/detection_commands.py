"""What `equigrad data check | stats | convert` do with detection data: text to show, and the exit status."""

import os
from typing import Literal

from equigrad.data.coco_json import read_coco
from equigrad.data.detection_checks import check_detection, training_would_be_wrong
from equigrad.data.detection_stats import GroupsBy, detection_stats
from equigrad.data.voc import convert_voc
from equigrad.data.yolo import convert_yolo

_PathLike = str | os.PathLike[str]


def check_file(file: _PathLike, images: _PathLike | None = None, *, decode: bool = False) -> tuple[str, int]:
    """The findings, a line each, and 1 if training would be wrong."""
    findings = check_detection(file, images, decode=decode)
    wrong = training_would_be_wrong(findings)
    counts = {severity: sum(item.severity == severity for item in findings) for severity in ("error", "warning")}
    verdict = "training would be wrong" if wrong else "fit for training"
    errors, warnings = (f"{count} kind{'s' * (count != 1)} of {name}" for name, count in counts.items())
    return "\n".join([*map(str, findings), f"{file}: {verdict}: {errors}, {warnings}"]), int(wrong)


def stats_of_file(file: _PathLike, *, groups_by: GroupsBy = "file", num_groups: int = 3) -> tuple[str, int]:
    """Totals, groups and the head and tail of the categories."""
    return str(detection_stats(read_coco(file), groups_by=groups_by, num_groups=num_groups)), 0


def convert_folder(
    layout: Literal["voc", "yolo"],
    folder: _PathLike,
    output: _PathLike,
    *,
    names: _PathLike | None = None,
    split: str | None = None,
) -> tuple[str, int]:
    """Write a COCO file, read it back, and say what is in it."""
    if layout == "voc":
        if names is not None:
            raise ValueError("names: a VOC folder has its names in the XML files; only yolo takes a file of names")
        written = convert_voc(folder, output, split=split)
    elif layout == "yolo":
        if split is not None:
            raise ValueError("split: name the folder of the split (FOLDER/images/train); only voc has lists of splits")
        written = convert_yolo(folder, output, names)
    else:
        raise ValueError(f"layout must be voc or yolo, got {layout!r}")
    return read_coco(written).describe(), 0
