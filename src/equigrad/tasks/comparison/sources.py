"""What a user's data is, found from its files: images with one or several categories, objects, or label maps."""

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.sources import detection_layout
from equigrad.data.images.multi_label import FILE, has_label_file, is_multi_label
from equigrad.data.images.stores import ZipStore, check_exists, zip_parts
from equigrad.tasks.classification.data import ManyLabels, OwnImages
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.segmentation.data import LabelFolders

TaskName = Literal["classification", "multi_label", "semantic_segmentation", "detection", "instance_segmentation"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)
Source = OwnImages | ManyLabels | CocoFiles | LabelFolders

_TEST_FOLDERS = ("test", "val", "valid", "validation")
_NAME_FILES = ("classes.csv", "classes.txt", "names.txt")


@dataclass(frozen=True)
class NamedFiles:
    """What the user names beside the data itself.

    Args:
        test: a test set like the data; None takes one beside it, or holds some of it out.
        root: what the paths of a list of images start from.
        images: folder or archive of the images of an annotation file.
        names: names of the categories of label maps.
    """

    test: Path | None = None
    root: Path | None = None
    images: Path | None = None
    names: Path | None = None


def find_source(data: Path, named: NamedFiles, task: TaskName | None = None) -> tuple[TaskName, Source]:
    """The task of some data, unless it is given, and its files.

    Raises:
        ValueError, OSError: one line on what is missing.
    """
    check_exists(data, "file or folder of data")
    if task == "multi_label" or (task is None and _has_many_labels(data)):
        return "multi_label", _many_labels(data, named)
    if data.suffix == ".json":
        return _annotated(data, named, task)
    _refuse_other_layouts(data)
    if task in ("detection", "instance_segmentation"):
        raise ValueError(
            f"{data}: {task} needs annotations in the format of COCO or LVIS (.json); `equigrad data` converts others"
        )
    folders = _folders(data)
    has_maps = {"images", "labels"} <= folders or {"train/images", "train/labels"} <= folders
    if task == "semantic_segmentation" or (task is None and has_maps):
        return "semantic_segmentation", _label_folders(data, named, folders)
    return "classification", _images(data, named, folders)


def assignments_of(source: Source) -> list[str]:
    """The files of a source as settings of a recipe, `data.train=…`."""
    values = {field.name: getattr(source, field.name) for field in fields(source)}
    default = type(source)()
    changed = {name: value for name, value in values.items() if value != getattr(default, name)}
    return [f"data.{name}={'none' if value is None else value}" for name, value in changed.items()]


def _annotated(data: Path, named: NamedFiles, task: TaskName | None) -> tuple[TaskName, CocoFiles]:
    if task in ("classification", "semantic_segmentation"):
        raise ValueError(f"{data}: {task} needs folders of images, not an annotation file")
    images = named.images or data.parent / "images"
    check_exists(images, f"folder of images; name that of {data} with --images FOLDER")
    if task is None:
        task = "detection" if read_coco(data).segmentations is None else "instance_segmentation"
    return task, CocoFiles(data, named.test, images)


def _refuse_other_layouts(folder: Path) -> None:
    """Objects in a VOC or YOLO folder: its folders are not categories, nor its text files label maps."""
    layout = detection_layout(folder)
    if layout is not None:
        words = ["equigrad", "data", "convert", layout, str(folder), f"{folder}.json"]
        raise ValueError(
            f"{folder}: annotated objects in a {layout.upper()} folder; make a COCO file of it, `{shlex.join(words)}`, "
            f"and name that with --images {shlex.quote(str(folder))}"
        )


def _has_many_labels(data: Path) -> bool:
    return is_multi_label(data) or (data.is_dir() and has_label_file(data / "train"))


def _many_labels(data: Path, named: NamedFiles) -> ManyLabels:
    if not has_label_file(data) and has_label_file(data / "train"):
        beside = (data / name for name in _TEST_FOLDERS if has_label_file(data / name))
        return ManyLabels(data / "train", named.test or next(beside, None), named.root)
    root = named.root or named.images
    if data.suffix == ".json" and root is None:
        root = data.parent / "images"
    if not has_label_file(data) and data.suffix != ".json":
        raise FileNotFoundError(f"{data / FILE}: no such file; expected CSV with the columns image and categories")
    return ManyLabels(data, named.test, root)


def _images(data: Path, named: NamedFiles, folders: set[str]) -> OwnImages:
    split = next((name for name in _TEST_FOLDERS if {"train", name} <= folders), None)
    if split is None or named.test is not None:
        train = data / "train" if "train" in folders and len(_top(folders)) == 1 else data
        is_cifar = any((data / name).exists() for name in ("batches.meta.txt", "fine_label_names.txt"))
        return OwnImages(train, data if is_cifar and named.test is None else named.test, named.root)
    return OwnImages(data / "train", data / split)


def _label_folders(data: Path, named: NamedFiles, folders: set[str]) -> LabelFolders:
    if named.test is not None:
        raise ValueError(
            f"--test {named.test}: the test set of label maps is {data}/test, with images and labels in it"
        )
    names = named.names or _names_of(data)
    if {"train/images", "train/labels"} <= folders:
        train, test = "train/", next((name for name in _TEST_FOLDERS if f"{name}/labels" in folders), None)
    elif {"images", "labels"} <= folders:
        train, test = "", None
    else:
        raise ValueError(f"{data}: expected images and labels, or train/images and train/labels, in it")
    return LabelFolders(
        images=Path(f"{train}images"),
        labels=Path(f"{train}labels"),
        names=names,
        test_images=None if test is None else Path(test, "images"),
        test_labels=None if test is None else Path(test, "labels"),
        root=data,
    )


def _names_of(data: Path) -> Path:
    archive = zip_parts(data)
    folder = data if archive is None else archive[0].parent
    found = next((folder / name for name in _NAME_FILES if (folder / name).is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"{folder}: expected {', '.join(_NAME_FILES[:-1])} or {_NAME_FILES[-1]} with the names of the categories; "
            "name yours with --names FILE"
        )
    return found


def _folders(data: Path) -> set[str]:
    """Folders in a folder or archive, and those in them."""
    if data.is_dir():
        tops = [path for path in data.iterdir() if path.is_dir()]
        below = [path for top in tops if top.name in ("train", *_TEST_FOLDERS) for path in top.iterdir()]
        return {path.relative_to(data).as_posix() for path in (*tops, *below) if path.is_dir()}
    archive = zip_parts(data)
    if archive is None:
        return set()
    parts = [path.split("/")[:-1] for path in ZipStore(*archive).paths()]
    return {"/".join(part[:depth]) for part in parts for depth in (1, 2) if len(part) >= depth}


def _top(folders: set[str]) -> set[str]:
    return {folder.partition("/")[0] for folder in folders}
