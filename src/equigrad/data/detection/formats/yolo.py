"""Converting a YOLO folder to one COCO file: `images/**`, each with a text file of the same name in `labels/**`."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equigrad.data.detection.formats.category_names import category_names
from equigrad.data.detection.formats.coco_json import write_coco
from equigrad.data.images.lists import SUFFIXES, is_hidden, is_image_path
from equigrad.data.images.paths import linked_inside
from equigrad.data.images.sizes import file_image_size
from equigrad.data.text_files import text_lines

_LABEL = re.compile("([0-9]{1,9})(?:[.]0*)?")  # some tools write 1.0
_TOLERANCE = 0.01  # share of the image by which boxes may extend beyond it: labels are rounded
_SPLITS = ("train", "valid", "val", "validation", "test")
_NAME_FILES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "labels/classes.txt")


def is_yolo(folder: Path) -> bool:
    """Whether a folder has the layout that `convert_yolo` reads."""
    return _Layout.of(folder).has_labels()


def refuse_settings_file(path: Path) -> None:
    """ValueError for the `data.yaml` of a YOLO folder where data is expected: it has neither images nor objects."""
    if path.suffix.lower() not in (".yaml", ".yml") or not path.is_file():
        return
    folder = shlex.quote(str(path.parent)) if is_yolo(path.parent) else "FOLDER"
    raise ValueError(
        f"{path}: settings of a YOLO folder, not its objects: `equigrad data check {folder}` checks them, and "
        f"`equigrad data convert yolo {folder} objects.json` makes the COCO file to train on"
    )


def convert_yolo(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    names: Sequence[str] | str | os.PathLike[str] | None = None,
) -> Path:
    """Write the boxes of a YOLO folder as COCO JSON; image paths are relative to the folder.

    A line is `category x y width height`, the centre and size as fractions of the image, or `category x1 y1 x2 y2 x3
    y3 ...`, a polygon. An image without text file has no objects.

    Args:
        folder: has `images` and `labels`, or folders of splits with these, or images and text files side by side. It
            may also be the folder of a split, `images/<split>`, whose labels are in `labels/<split>`.
        output: the COCO file to write.
        names: the category names, or a file with one name on each line or YAML with `names`. None looks for
            `data.yaml`, `classes.txt` or `obj.names` in the folder and in the one above.
    """
    folder = Path(folder)
    layout = _Layout.of(folder)
    if not layout.has_labels():
        raise FileNotFoundError(
            f"{folder}: expected text files with the objects in {layout.folders[0][1]}, found none; name the folder "
            "that has the folders images and labels, or train and valid with these"
        )
    titles = _names(layout.root, names)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, (file, labels) in enumerate(layout.files(), start=1):
        path = file.relative_to(folder).as_posix()
        height, width = file_image_size(linked_inside(file, folder))
        images.append({"id": image_id, "file_name": path, "height": height, "width": width})
        for item in _read_labels(labels, len(titles), height, width):
            annotations.append({"id": len(annotations) + 1, "image_id": image_id, **item})
    categories = [{"id": index + 1, "name": name} for index, name in enumerate(titles)]
    return write_coco(output, images, annotations, categories)


@dataclass(frozen=True)
class _Layout:
    root: Path  # has the file of category names
    folders: tuple[tuple[Path, Path], ...]  # of images, each with that of its text files: the same if these are beside

    @classmethod
    def of(cls, folder: Path) -> "_Layout":
        if (folder / "images").is_dir():
            return cls(folder, ((folder / "images", folder / "labels"),))
        splits = [folder / name for name in sorted(_SPLITS) if (folder / name / "images").is_dir()]
        splits = [split for split in splits if (split / "labels").is_dir()]
        if splits:  # as Roboflow exports them: train/images, train/labels, valid/images, …
            return cls(folder, tuple((split / "images", split / "labels") for split in splits))
        parts = folder.resolve().parts
        if "images" in parts:
            last = len(parts) - 1 - parts[::-1].index("images")
            labels = Path(*parts[:last], "labels", *parts[last + 1 :])
            if labels.is_dir():
                return cls(Path(*parts[:last]), ((folder, labels),))
        return cls(folder, ((folder, folder),))

    def has_labels(self) -> bool:
        return any(_has_labels(images, labels) for images, labels in self.folders)

    def files(self) -> Iterator[tuple[Path, Path]]:
        """Every image, and the path of its text file, which may be missing."""
        for images, labels in self.folders:
            found = (file for file in images.rglob("*") if file.is_file())
            files = sorted(file for file in found if is_image_path(file.relative_to(images).as_posix()))
            if not files:
                raise FileNotFoundError(f"{images}: expected images, found none")
            pairs = [(file, (labels / file.relative_to(images)).with_suffix(".txt")) for file in files]
            if labels != images:
                known = {label for _, label in pairs} | {labels / "classes.txt"}
                for file in sorted(labels.rglob("*.txt")):
                    if file not in known and not is_hidden(file.relative_to(labels).as_posix()):
                        raise FileNotFoundError(
                            f"{file}: there is no image with the same name in {images}; add it, or remove the text file"
                        )
            for image, label in pairs:
                yield image, linked_inside(label, labels)


def _has_labels(images: Path, labels: Path) -> bool:
    if labels != images:
        return any(labels.rglob("*.txt"))
    files = (file for file in images.glob("*.txt") if file.name != "classes.txt")
    return any(file.with_suffix(suffix).is_file() for file in files for suffix in SUFFIXES)


def _read_labels(file: Path, num_classes: int, height: int, width: int) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    return [
        _annotation(f"{file}:{number}", line.split(), num_classes, height, width)
        for number, line in enumerate(text_lines(file), start=1)
        if line.strip()
    ]


def _annotation(where: str, words: list[str], num_classes: int, height: int, width: int) -> dict[str, Any]:
    if len(words) != 5 and (len(words) < 7 or len(words) % 2 == 0):
        raise ValueError(
            f"{where}: expected a category and 4 numbers, or 6, 8, ... of a polygon, got {len(words)} words"
        )
    label = _LABEL.fullmatch(words[0])
    if label is None or int(label[1]) >= num_classes:
        raise ValueError(f"{where}: category: expected 0..{num_classes - 1}, got {words[0]!r:.40}")
    numbers = [_fraction(where, word) for word in words[1:]]
    scaled = [number * (height if index % 2 else width) for index, number in enumerate(numbers)]
    if len(numbers) == 4:
        x, y, box_width, box_height = scaled
        box, shape = [x - box_width / 2, y - box_height / 2, box_width, box_height], {}
    else:
        xs, ys = scaled[::2], scaled[1::2]
        box, shape = [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)], {"segmentation": [_rounded(scaled)]}
    if box[2] < 0 or box[3] < 0:  # those without area are found by the checks, and never trained on
        raise ValueError(
            f"{where}: width and height: expected no negative numbers, got {box[2] / width}, {box[3] / height}"
        )
    area = round(box[2] * box[3], 4)
    return {"category_id": int(label[1]) + 1, "bbox": _rounded(box), "area": area, "iscrowd": 0, **shape}


def _fraction(where: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = -1.0
    if not -_TOLERANCE <= number <= 1 + _TOLERANCE:  # also refuses nan
        raise ValueError(f"{where}: expected fractions of the image in 0..1, got {word!r:.40}")
    return number


def _rounded(numbers: list[float]) -> list[float]:
    return [round(number, 4) for number in numbers]


def _names(folder: Path, names: Sequence[str] | str | os.PathLike[str] | None) -> list[str]:
    if names is None:
        above = (folder, folder.resolve().parent)
        names = next((place / name for place in above for name in _NAME_FILES if (place / name).is_file()), None)
    if names is None:
        raise FileNotFoundError(
            f"{folder}: expected the category names in data.yaml, classes.txt or obj.names, or --names FILE"
        )
    return category_names(names)
