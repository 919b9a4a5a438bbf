"""`equigrad data convert`: between a COCO file, a VOC folder and a YOLO folder."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from equigrad.errors import UsageError

_LAYOUTS = ("coco", "voc", "yolo")


def add_parser(tasks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad data convert coco|voc|yolo SOURCE OUTPUT --to coco|voc|yolo`."""
    convert = tasks.add_parser("convert", help="convert between a COCO file, a VOC folder and a YOLO folder")
    convert.add_argument("layout", choices=_LAYOUTS, help="format of SOURCE")
    convert.add_argument("source", type=Path, metavar="SOURCE", help="a COCO or LVIS file, or a VOC or YOLO folder")
    convert.add_argument("output", type=Path, metavar="OUTPUT", help="the new file or folder")
    convert.add_argument("--to", choices=_LAYOUTS, default="coco", help="format of OUTPUT (coco)")
    convert.add_argument("--images", type=Path, metavar="FOLDER", help="folder or .zip with the images of a COCO file")
    convert.add_argument(
        "--image-files",
        choices=("link", "copy", "none"),
        help="how to add images to a VOC or YOLO folder; by default links, from an archive copies",
    )
    convert.add_argument("--boxes-only", action="store_true", help="leave masks out of a VOC or YOLO folder")
    add_folder_options(convert)
    convert.set_defaults(function=convert_source)


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """What a VOC or YOLO folder may need besides its path."""
    parser.add_argument(
        "--names", type=Path, metavar="FILE", help="names for a VOC or YOLO folder: data.yaml, or one per line"
    )
    parser.add_argument("--split", help="split of a VOC folder: ImageSets/Main/SPLIT.txt")


def convert_source(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Write the other form, and say what is in it and what it cannot hold."""
    from equigrad.data.detection.formats.coco_json import read_coco
    from equigrad.data.detection.formats.voc_writing import write_voc
    from equigrad.data.detection.formats.yolo_writing import write_yolo
    from equigrad.data.detection.measured_sizes import complete_sizes, with_sizes
    from equigrad.data.detection.sources import as_coco, convert_to_coco, read_source
    from equigrad.data.images.stores import open_store

    if parsed.layout == parsed.to == "coco" and parsed.images is not None:
        print(read_coco(complete_sizes(parsed.source, parsed.output, parsed.images)).describe())
        return
    if parsed.layout == parsed.to:
        others = " or ".join(f"--to {layout}" for layout in _LAYOUTS if layout != parsed.to)
        sizes = "; --images FOLDER adds the sizes of images" if parsed.to == "coco" else ""
        raise UsageError(
            f"{parsed.source}: is to be read as {parsed.to} and written as {parsed.to}; give {others}{sizes}"
        )
    if parsed.to == "coco":
        written = convert_to_coco(parsed.source, parsed.layout, parsed.output, parsed.names, parsed.split)
        print(read_coco(written).describe())
        return
    write = write_voc if parsed.to == "voc" else write_yolo
    with as_coco(parsed.source, parsed.layout, parsed.names, parsed.split) as (file, own_images):
        data, images = read_source(file, parsed.source), images_of(parsed.images, own_images)
        conversion = write(
            data if images is None else with_sizes(data, open_store(images)),
            parsed.output,
            images,
            image_files=parsed.image_files,
            with_masks=not parsed.boxes_only,
        )
    print(conversion)


def images_of(given: Path | None, own: Path | None) -> Path | None:
    """Where the images are: in the VOC or YOLO folder itself, or where the user says."""
    if given is not None and own is not None:
        raise UsageError(f"--images {given}: images of a VOC or YOLO folder are found in it; leave --images out")
    return own or given
