"""Converting a Pascal VOC folder (`Annotations/*.xml`, `JPEGImages`, `ImageSets/Main`) to one COCO file."""

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from equigrad.data.detection.formats.category_names import category_names
from equigrad.data.detection.formats.coco_json import write_coco
from equigrad.data.detection.formats.voc_masks import mask_area, read_object_masks
from equigrad.data.images.lists import SUFFIXES
from equigrad.data.images.paths import inside, linked_inside
from equigrad.data.images.sizes import file_image_size
from equigrad.data.text_files import read_small, text_lines

NAMES_FILE = "classes.txt"
"""Not of VOC itself: names the categories in order, also those that no image of the split has."""

_ANNOTATIONS = ("Annotations", "annotations")
_IMAGES = ("JPEGImages", "images")
_ABSOLUTE = re.compile(r"[A-Za-z]:|[/\\]")
_MAX_DEPTH = 32
_MAX_BYTES = 1 << 24  # of an XML file: some 50,000 objects


@dataclass
class _Element:
    tag: str
    line: int
    texts: list[str] = field(default_factory=list)
    children: list["_Element"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str) -> Iterator["_Element"]:
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> "_Element | None":
        return next(self.all(tag), None)


def is_voc(folder: Path) -> bool:
    """Whether a folder has the layout that `convert_voc` reads."""
    return any((folder / name).is_dir() for name in _ANNOTATIONS) or any(folder.glob("*.xml"))


def convert_voc(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    names: Sequence[str] | str | os.PathLike[str] | None = None,
    *,
    split: str | None = None,
) -> Path:
    """Write the boxes of a VOC folder as COCO JSON; image paths are relative to the folder.

    VOC counts pixels from 1 and includes the last one: xmin 1, xmax 10 is a box from 0 with width 10. Objects marked
    difficult become crowds: they are neither trained on nor counted as missed, as in VOC's own evaluation. Where the
    folder has `SegmentationObject/<image>.png`, its pixels of value k are the mask of the k-th object.

    Args:
        folder: has `Annotations` or the XML files themselves; images are in `JPEGImages`, `images` or beside the XML
            files. An image is found by the name in its XML file or, if it was renamed since, by that of the XML file.
        output: the COCO file to write.
        names: the categories in order, or a file with one name on each line or YAML with `names`. None reads
            `classes.txt` in the folder, or else takes all that occur, sorted.
        split: convert only the images listed in `ImageSets/Main/<split>.txt`.
    """
    folder = Path(folder)
    files = _annotation_files(folder, split)
    documents = [(file, _parse(linked_inside(file, folder))) for file in files]
    if names is None and (folder / NAMES_FILE).is_file():
        names = folder / NAMES_FILE
    titles = _names(documents) if names is None else category_names(names)
    ids = {name: index + 1 for index, name in enumerate(titles)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, (file, root) in enumerate(documents, start=1):
        image = _image(folder, file, root)
        images.append({"id": image_id, **image})
        items = list(root.all("object"))
        masks = _masks(folder, file.stem, (image["height"], image["width"]), len(items))
        for item, mask in zip(items, masks, strict=True):
            box = _annotation(file, item, ids)
            annotations.append({"id": len(annotations) + 1, "image_id": image_id, **box, **mask})
    categories = [{"id": id_, "name": name} for name, id_ in ids.items()]
    return write_coco(output, images, annotations, categories)


def _annotation_files(folder: Path, split: str | None) -> list[Path]:
    root = next((folder / name for name in _ANNOTATIONS if (folder / name).is_dir()), folder)
    files = sorted(root.glob("*.xml"))
    if split is not None:
        listed = folder / "ImageSets" / "Main" / f"{inside(split, 'split')}.txt"
        if not listed.is_file():
            raise FileNotFoundError(f"{listed}: no such list of images")
        names = [inside(line.split()[0], str(listed)) for line in text_lines(listed) if line.strip()]
        files = [root / f"{name}.xml" for name in names]
    if not files:
        raise FileNotFoundError(f"{root}: expected annotations (*.xml), found none")
    return files


def _parse(file: Path) -> _Element:
    """The root element; ValueError names file and line. Document types are refused: entities can expand without end."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    document = _Element("", 0)
    stack = [document]

    def start(tag: str, _: dict[str, str]) -> None:
        if len(stack) > _MAX_DEPTH:
            raise ValueError(f"{file}:{parser.CurrentLineNumber}: nested too deeply")
        element = _Element(tag, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def refuse(*_: object) -> None:
        raise ValueError(f"{file}:{parser.CurrentLineNumber}: document types (<!DOCTYPE>) are not accepted")

    def add_text(text: str) -> None:
        stack[-1].texts.append(text)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(read_small(file, _MAX_BYTES), True)
    except FileNotFoundError:
        raise FileNotFoundError(f"{file}: no such annotation file") from None
    except expat.ExpatError as error:
        raise ValueError(f"{file}:{error.lineno}: not XML ({expat.ErrorString(error.code)})") from None
    return document.children[0]


def _names(documents: Sequence[tuple[Path, _Element]]) -> list[str]:
    return sorted({_text(file, item, "name") for file, root in documents for item in root.all("object")})


def _image(folder: Path, file: Path, root: _Element) -> dict[str, Any]:
    name = _text(file, root, "filename")
    if _ABSOLUTE.match(name):  # a path on the machine where the tool ran
        name = re.split(r"[/\\]", name)[-1]
    name = inside(name, f"{file}: filename")
    places = [*map(Path, _IMAGES), file.parent.relative_to(folder), Path()]
    names = [name, *(f"{file.stem}{suffix}" for suffix in (*SUFFIXES, *map(str.upper, SUFFIXES)))]
    candidates = (place / each for each in names for place in places)
    path = next((path for path in candidates if (folder / path).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{folder / places[0] / name}: no such image, but {file} names it")
    # From the image's header: tools often leave <size> at 0 or do not update it.
    height, width = file_image_size(linked_inside(folder / path, folder))
    return {"file_name": path.as_posix(), "height": height, "width": width}


def _masks(folder: Path, stem: str, size: tuple[int, int], num_objects: int) -> list[dict[str, Any]]:
    """The segmentation of each object, with the area that COCO counts for it; empty where the folder has none."""
    file = folder / "SegmentationObject" / f"{stem}.png"
    if not file.is_file():
        return [{} for _ in range(num_objects)]
    masks = read_object_masks(linked_inside(file, folder), size, num_objects)
    return [{} if mask is None else {"segmentation": mask, "area": mask_area(mask)} for mask in masks]


def _annotation(file: Path, item: _Element, ids: dict[str, int]) -> dict[str, Any]:
    name = _text(file, item, "name")
    if name not in ids:
        raise ValueError(f"{file}:{item.line}: name: expected one of the {len(ids)} categories, got {name!r:.60}")
    bounds = item.first("bndbox")
    if bounds is None:
        raise ValueError(f"{file}:{item.line}: object: expected a bndbox")
    left, top, right, bottom = (_number(file, bounds, tag) for tag in ("xmin", "ymin", "xmax", "ymax"))
    left, top = max(left - 1, 0), max(top - 1, 0)  # some tools count from 0
    if right <= left or bottom <= top:
        raise ValueError(f"{file}:{bounds.line}: bndbox: expected xmin <= xmax and ymin <= ymax")
    box = [left, top, right - left, bottom - top]
    difficult = item.first("difficult")
    is_crowd = int(difficult is not None and difficult.text.strip() == "1")
    return {"category_id": ids[name], "bbox": box, "area": box[2] * box[3], "iscrowd": is_crowd}


def _text(file: Path, element: _Element, tag: str) -> str:
    child = element.first(tag)
    if child is None or not child.text.strip():
        raise ValueError(f"{file}:{(child or element).line}: {element.tag}: expected a {tag}")
    return child.text.strip()


def _number(file: Path, element: _Element, tag: str) -> float:
    text = _text(file, element, tag)
    child = element.first(tag)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{file}:{child.line if child else element.line}: {tag}: expected a number, got {text!r:.40}")
    return number
