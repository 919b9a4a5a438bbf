"""What is read from files: a good example of each, how to read it, and how to know without the reader what is right."""

import io
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equigrad.analysis.history import RunHistory
from equigrad.analysis.report import write_report
from equigrad.data.detection import mapped_arrays
from equigrad.data.detection.checks import check_detection
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.openimages import (
    BOXES_FILE,
    CLASSES_FILE,
    HIERARCHY_FILE,
    LABELS_FILE,
    read_openimages,
)
from equigrad.data.detection.formats.voc import convert_voc
from equigrad.data.detection.formats.yolo import convert_yolo
from equigrad.data.detection.index_columns import from_columns, to_columns
from equigrad.data.images.readers import read_arrays, read_cifar, read_image_folder, read_image_list
from equigrad.data.images.stores import read_image
from equigrad.data.segmentation.category_pixels import count_pixels
from equigrad.data.segmentation.readers import read_label_folders, read_scene_parsing
from equigrad.evaluation.detection.evaluator import load_predictions
from equigrad.evaluation.detection.openimages import OpenImagesEvaluator
from equigrad.evaluation.detection.prediction_shards import PredictionWriter, finished_images, read_shards
from equigrad.recipes.catalogue import changed_recipe, load_recipe
from equigrad.settings import to_json
from equigrad.tasks.categories import TrainedCategories

Check = Callable[[Path, Any], bool]


@dataclass(frozen=True)
class Subject:
    """A kind of file.

    Args:
        files: of the example, which are damaged one at a time.
        make: writes the example into a folder.
        read: what is to be tested; gives plain data that can be compared.
        is_right: whether the result is right for what is in the folder, found out by other means.
    """

    files: tuple[str, ...]
    make: Callable[[Path], object]
    read: Callable[[Path], Any]
    is_right: Check


def plain(value: Any) -> Any:
    """Anything a reader gives, as data that `==` compares; nan is equal to nan."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, plain(value.tolist())]
    if isinstance(value, np.generic):
        return plain(value.item())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


# COCO and LVIS


def coco_content() -> dict[str, Any]:
    images = [
        {
            "id": 4 + k,
            "file_name": f"{k}.png",
            "height": 8,
            "width": 12,
            "neg_category_ids": [3],
            "not_exhaustive_category_ids": [],
        }
        for k in range(2)
    ]
    categories = [{"id": 2, "name": "cat", "frequency": "f"}, {"id": 3, "name": "dog", "frequency": "r"}]
    shapes = [[[1, 1, 5, 1, 5, 4]], {"size": [8, 12], "counts": [90, 6]}, {"size": [8, 12], "counts": "j26"}]
    annotations = [
        {
            "id": k + 1,
            "image_id": 4 + k % 2,
            "category_id": 2,
            "bbox": [1, 1, 4.5, 3],
            "area": 13.5,
            "iscrowd": 0,
            "segmentation": shape,
        }
        for k, shape in enumerate(shapes)
    ]
    return {"info": {}, "images": images, "annotations": annotations, "categories": categories}


def write_coco(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(coco_content()))


def read_detection(folder: Path) -> Any:
    data = read_coco(folder / "a.json")
    masks = (
        []
        if data.segmentations is None
        else [data.mask(k).sum() for k in range(data.num_annotations) if data.segmentations.lengths[k]]
    )
    return plain(
        [
            data.image_ids,
            data.file_names,
            data.heights,
            data.widths,
            data.categories,
            data.labels,
            data.ids,
            data.xywh,
            masks,
        ]
    )


def is_coco(folder: Path, result: Any) -> bool:
    """By Python's own JSON reader; fields that nobody reads may hold anything."""
    content = json.loads((folder / "a.json").read_text(errors="replace"))
    images, names = result[0][2], result[1]
    by_image = sorted(
        content.get("annotations", []),
        key=lambda item: [image["id"] for image in content["images"]].index(item["image_id"]),
    )
    return (
        images == [image["id"] for image in content["images"]]
        and len(names) == len(images)
        and all(".." not in name.split("/") and not name.startswith("/") for name in names)
        and result[6][2] == [item["id"] for item in by_image]
        and result[7][2] == plain([[float(side) for side in item["bbox"]] for item in by_image])
    )


def write_index(folder: Path) -> None:
    write_coco(folder)
    mapped_arrays.write_arrays(folder / "a.index", {}, to_columns(read_coco(folder / "a.json")))


def read_index(folder: Path) -> Any:
    file = folder / "a.index"
    try:
        data = from_columns(mapped_arrays.map_arrays(file)[1], folder / "a.json")
        names = list(data.file_names)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return plain([len(data), data.num_classes, names, data.offsets, data.labels, data.presence, data.category_counts])


def is_consistent(folder: Path, result: Any) -> bool:
    """No number of the index leads out of its arrays, and no name out of the folder of images."""
    num_images, num_classes, names, offsets, labels, presence, counts = result
    return (
        len(names) == num_images == len(offsets[2]) - 1
        and all(".." not in name.split("/") and not name.startswith("/") for name in names)
        and sorted(offsets[2]) == offsets[2]
        and offsets[2][-1] == len(labels[2])
        and all(0 <= label < num_classes for label in [*labels[2], *presence[1][2]])
        and all(0 <= image < num_images for image in presence[0][2])
        and len(counts[2]) == num_classes
    )


def check_file(folder: Path) -> Any:
    return [finding.severity for finding in check_detection(folder / "a.json")]


def agrees_with_reader(folder: Path, severities: Any) -> bool:
    """A file without errors can be read, unless it says a field twice, of which Python keeps the last."""
    if "error" in severities or _repeats_a_field((folder / "a.json").read_text(errors="replace")):
        return True
    try:
        read_coco(folder / "a.json")
    except ValueError:
        return False
    return True


def _repeats_a_field(text: str) -> bool:
    sizes: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: sizes.append(len(dict(pairs)) < len(pairs)))
    return any(sizes)


def write_detections(folder: Path) -> None:
    write_coco(folder)
    masks = [{"size": [8, 12], "counts": "j26"}, {"size": [8, 12], "counts": [90, 6]}, [[1, 1, 5, 1, 5, 4]]]
    rows = [
        {
            "image_id": 4 + k % 2,
            "category_id": 2 + k % 2,
            "bbox": [1.5, 2, 3, 4],
            "score": 0.5 + k / 10,
            "segmentation": mask,
        }
        for k, mask in enumerate(masks)
    ]
    (folder / "results.json").write_text(json.dumps(rows))


def read_results(folder: Path) -> Any:
    annotations = read_coco(folder / "a.json")
    return [
        plain([found.images, found.labels, found.boxes, found.scores])
        for found in (load_predictions(folder / "results.json", annotations, kind) for kind in ("bbox", "segm"))
    ]


def is_results(folder: Path, result: Any) -> bool:
    rows = json.loads((folder / "results.json").read_text("utf-8-sig"))
    scores = [float(row["score"]) for row in rows]
    return all(kind[3][2] == scores for kind in result) and all(map(math.isfinite, scores))


def write_shards(folder: Path) -> None:
    write_coco(folder)
    writer = PredictionWriter(folder / "shards")
    writer.add(4, [2, 3], [[1, 2, 3, 4]] * 2, [0.5, 0.25], [b"j26", b"j26"])
    writer.add(5, [], np.zeros((0, 4)), [], [])
    writer.close()


def read_shard_files(folder: Path) -> Any:
    found = read_shards(folder / "shards", read_coco(folder / "a.json"))
    return plain([found.images, found.labels, found.boxes, found.scores, finished_images(folder / "shards")])


def is_finite_shard(folder: Path, result: Any) -> bool:
    """The checksum notices a changed array, so that only the archive's index may differ."""
    return bool(np.isfinite(np.array(result[2][2], float)).all())


# OpenImages

MIDS = ("/m/0a", "/m/0b", "/m/0c")
OPENIMAGES = (
    BOXES_FILE.format(split="validation"),
    LABELS_FILE.format(split="validation"),
    CLASSES_FILE,
    HIERARCHY_FILE,
    "sizes.csv",
)


def write_openimages(folder: Path) -> None:
    boxes = (
        "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n"
        "a1,/m/0b,0,0.5,0,1,0\na1,/m/0c,0.1,0.2,0.3,0.4,1\nb2,/m/0a,0,1,0,1,-1\n"
    )
    labels = "ImageID,LabelName,Confidence\na1,/m/0b,1\nb2,/m/0a,1\nb2,/m/0c,0\n"
    tree = {
        "LabelName": "/m/0",
        "Subcategory": [{"LabelName": "/m/0a", "Subcategory": [{"LabelName": "/m/0b"}]}, {"LabelName": "/m/0c"}],
    }
    texts = (
        boxes,
        labels,
        "/m/0a,Animal\n/m/0b,Dog\n/m/0c,Car\n",
        json.dumps(tree),
        "ImageID,Width,Height\na1,8,9\nb2,7,6\n",
    )
    for name, text in zip(OPENIMAGES, texts, strict=True):
        (folder / name).write_text(text)


def read_openimages_files(folder: Path) -> Any:
    data = read_openimages(folder, "validation", sizes=folder / "sizes.csv")
    found = data.detection
    return plain(
        [
            data.image_names,
            found.boxes,
            found.labels,
            found.heights,
            found.widths,
            data.is_group_of,
            data.mids,
            found.categories.names,
        ]
    )


def is_openimages(folder: Path, result: Any) -> bool:
    """As many boxes as lines, and each in its image."""
    lines = [line for line in (folder / OPENIMAGES[0]).read_text("latin-1").split("\n")[1:] if line.strip()]
    boxes = np.array(result[1][2], float).reshape(-1, 4)
    return len(boxes) == len(lines) and bool((boxes >= 0).all() and (boxes[:, 2:] >= boxes[:, :2]).all())


def write_openimages_results(folder: Path) -> None:
    write_openimages(folder)
    rows = [{"image_id": name, "category_id": 2, "bbox": [0, 0, 4, 9], "score": 0.5} for name in ("a1", "b2", 0)]
    (folder / "results.json").write_text(json.dumps(rows))


def read_openimages_results(folder: Path) -> Any:
    data = read_openimages(folder, "validation", sizes=folder / "sizes.csv")
    evaluator = OpenImagesEvaluator(data, data.detection.instance_counts)
    evaluator.add_file(folder / "results.json")
    return plain(evaluator.result())


def are_fractions(folder: Path, result: Any) -> bool:
    return all(value == "nan" or 0 <= value <= 1 for value in result.values())


# YOLO and VOC


def write_yolo(folder: Path) -> None:
    for part in ("images", "labels"):
        (folder / part).mkdir()
    Image.new("RGB", (12, 8)).save(folder / "images" / "a.png")
    (folder / "labels" / "a.txt").write_text("1 0.5 0.5 0.2 0.4\n0 0.1 0.2 0.5 0.2 0.5 1.0\n")
    (folder / "data.yaml").write_text("names:\n  0: cat\n  1: dog\n")


def read_yolo(folder: Path) -> Any:
    data = read_coco(convert_yolo(folder, folder / "out.json"))
    return plain([data.xywh, data.labels, data.categories.names, data.heights, data.widths])


VOC = ("Annotations/a.xml", "ImageSets/Main/train.txt", "SegmentationObject/a.png")


def write_voc(folder: Path) -> None:
    for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (folder / part).mkdir(parents=True)
    Image.new("RGB", (12, 8)).save(folder / "JPEGImages" / "a.png")
    box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>5</xmax><ymax>8</ymax></bndbox>"
    objects = f"<object><name>cat</name><difficult>0</difficult>{box}</object>" * 2
    (folder / "Annotations" / "a.xml").write_text(f"<annotation><filename>a.png</filename>\n{objects}</annotation>")
    (folder / "ImageSets" / "Main" / "train.txt").write_text("a 1\n")
    (folder / "SegmentationObject").mkdir()
    numbers = np.repeat([[0, 1, 2]], 4, axis=1).repeat(8, axis=0).astype(np.uint8)
    Image.fromarray(numbers).save(folder / "SegmentationObject" / "a.png")


def read_voc(folder: Path) -> Any:
    data = read_coco(convert_voc(folder, folder / "out.json", split="train"))
    return plain([data.xywh, data.labels, data.categories.names, data.heights, data.widths])


def has_good_boxes(folder: Path, result: Any, *, may_be_empty: bool = False) -> bool:
    boxes, labels, names = np.array(result[0][2], float).reshape(-1, 4), result[1][2], result[2]
    sizes = boxes[:, 2:]
    return bool(np.isfinite(boxes).all() and (sizes >= 0 if may_be_empty else sizes > 0).all()) and all(
        0 <= label < len(names) for label in labels
    )


def has_boxes(folder: Path, result: Any) -> bool:
    """Those without area are read: the checks report them, and none is trained on."""
    return has_good_boxes(folder, result, may_be_empty=True)


# Images with labels


def write_image_list(folder: Path) -> None:
    (folder / "train.txt").write_text("a/1.png 0\na/2 b.png 1\n\nc.png 2\n")
    (folder / "classes.csv").write_text("label,name\n0,cat\n1,'=dog\n2,eel\n")


def read_list(folder: Path) -> Any:
    images = read_image_list(folder / "train.txt", folder)
    images.category_counts.sum()
    return plain([images.paths, images.labels, images.class_names])


def is_list(folder: Path, result: Any) -> bool:
    lines = [line.strip() for line in (folder / "train.txt").read_text("utf-8-sig").split("\n")]  # read_text joins \r\n
    pairs = [line.rsplit(" ", 1) for line in lines if line]
    return (
        [path.strip() for path, _ in pairs] == result[0]
        and [int(label) for _, label in pairs] == result[1][2]
        and all(".." not in path.replace("\\", "/").split("/") and path[0] not in "/\\" for path in result[0])
        and all(0 <= label < len(result[2]) for label in result[1][2])
    )


def write_arrays(folder: Path) -> None:
    images = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    np.savez(folder / "a.npz", images=images, labels=[1, 0])
    np.savez_compressed(folder / "b.npz", images=images, labels=[1, 0])


def read_array_files(folder: Path) -> Any:
    both = [read_arrays(folder / name) for name in ("a.npz", "b.npz")]
    return plain([[images.store.images, images.labels, images.class_names, images.category_counts] for images in both])


def is_array(folder: Path, result: Any) -> bool:
    """By numpy's own reader."""
    for name, (images, labels, *_) in zip(("a.npz", "b.npz"), result, strict=True):
        with np.load(folder / name) as arrays:
            if plain(arrays["images"]) != images or arrays["labels"].tolist() != labels[2]:
                return False
    return True


def write_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
            archive.writestr(name, _encoded("PNG"))


def read_zip(folder: Path) -> Any:
    images = read_image_folder(folder / "a.zip")
    return [images.class_names, images.paths, [images.store.read(path).tobytes() for path in images.paths]]


def _encoded(kind: str) -> bytes:
    stream = io.BytesIO()
    pixels = np.arange(6 * 5 * 3, dtype=np.uint8).reshape(6, 5, 3)
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


IMAGES = ("a.bmp", "a.gif", "a.jpeg", "a.png", "a.ppm", "a.tiff", "a.webp")


def write_pictures(folder: Path) -> None:
    for name in IMAGES:
        (folder / name).write_bytes(_encoded(name.partition(".")[2].upper()))


def read_pictures(folder: Path) -> Any:
    return [[image.mode, image.size, image.tobytes()] for image in (read_image(folder / name) for name in IMAGES)]


def are_pictures(folder: Path, result: Any) -> bool:
    """A changed pixel cannot be noticed in most formats."""
    return all(mode == "RGB" and len(pixels) == 3 * size[0] * size[1] for mode, size, pixels in result)


def write_cifar(folder: Path) -> None:
    (folder / "batches.meta.txt").write_text("cat\ndog\n\n")
    (folder / "test_batch.bin").write_bytes((b"\1" + bytes(3072)) * 2)


def read_cifar_files(folder: Path) -> Any:
    images = read_cifar(folder, "test")
    return plain([images.labels, images.class_names, images.category_counts, len(images)])


def is_cifar(folder: Path, result: Any) -> bool:
    content = (folder / "test_batch.bin").read_bytes()
    return [content[start] for start in range(0, len(content), 3073)] == result[0][2]


# Segmentation


def write_maps(folder: Path) -> None:
    for part in ("images", "labels"):
        (folder / part).mkdir()
        pixels = np.array([[0, 1, 2], [2, 255, 0]], dtype=np.uint8)
        Image.fromarray(pixels).save(folder / part / "a.png")
    (folder / "names.txt").write_text("sky\nroad\ncar\n")
    (folder / "names.csv").write_text("id,name\n0,sky\n1,road\n2,car\n")
    (folder / "list.txt").write_text("a\n")


def read_maps(folder: Path, cache: Path | None = None) -> Any:
    found = []
    for names in ("names.txt", "names.csv"):
        data = read_label_folders("images", "labels", folder / names, root=folder).listed(folder / "list.txt")
        pixels = count_pixels(data, cache=cache).pixels
        found.append([data.class_names, data.names, data.read_labels(0), pixels])
    return plain(found)


def read_cached_maps(folder: Path) -> Any:
    return read_maps(folder, folder / "cache.npz")


def are_maps(folder: Path, result: Any) -> bool:
    """Pixel counts add up, and labels are those of the names."""
    for names, images, labels, pixels in result:
        values = np.array(labels[2])
        known = values[values != -100]
        counts = np.bincount(known.ravel(), minlength=len(names)) if known.size else np.zeros(len(names), int)
        if len(counts) != len(names) or pixels[2][0] != counts.tolist() or len(pixels[2]) != len(images):
            return False
    return True


def write_cache(folder: Path) -> None:
    write_maps(folder)
    read_cached_maps(folder)


def write_scene_parsing(folder: Path) -> None:
    for part in ("images", "annotations"):
        (folder / part / "training").mkdir(parents=True)
        Image.fromarray(np.array([[0, 1], [2, 1]], dtype=np.uint8)).save(folder / part / "training" / "a.png")
    (folder / "objectInfo.csv").write_text("Idx,Ratio,Train,Val,Stuff,Name\n1,0.5,1,1,0,wall\n2,0.5,1,1,0,'-door\n")


def read_scene_files(folder: Path) -> Any:
    data = read_scene_parsing(folder, "training")
    return plain([data.class_names, data.read_labels(0)])


def is_scene(folder: Path, result: Any) -> bool:
    labels = np.array(result[1][2])
    return bool(((labels == -100) | ((labels >= 0) & (labels < len(result[0])))).all())


# Runs


RUN_FILES = ("recipe.json", "metrics.jsonl", "statistics.npz", "evaluation.json", "predictions/test.npz")


def write_run(folder: Path) -> None:
    named = load_recipe("tiny:segmentation", ["method=ce"])
    recipe = {
        "format": 2,
        "seed": 0,
        "step": 0,
        "command": ["equigrad"],
        "time": "",
        "versions": {"torch": "2"},
        **named.source(),
    }
    recipe["starts"] = [{"command": ["equigrad", "train"], "step": 0}]
    (folder / "recipe.json").write_text(json.dumps(recipe))
    lines = [{"step": step, "loss": 0.5, "seconds_per_step": 0.1} for step in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sums = np.array([[1.0, 2.0], [2.0, 4.0]])
    with (folder / "statistics.npz").open("wb") as stream:
        np.savez(
            stream, steps=np.array([1, 3]), **{"loss.statistics.positive": sums, "loss.statistics.negative": sums + 1}
        )
    (folder / "predictions").mkdir(exist_ok=True)
    with (folder / "predictions" / "test.npz").open("wb") as stream:
        images = {"labels": np.array([0, 1]), "top": np.array([[0, 1], [0, 1]]), "scores": np.array([[0.9, 0.1]] * 2)}
        np.savez(stream, **images)
    rows = [
        {"name": "cat", "count": 9, "group": "many", "IoU": 0.5},
        {"name": "dog", "count": 1, "group": "few", "IoU": None},
    ]
    (folder / "evaluation.json").write_text(json.dumps({"result": {"mIoU": 0.5, "mIoU1": 1.0}, "categories": rows}))
    rows = [
        {"name": "cat", "group": "frequent", "images": 200, "instances": 300},
        {"name": "dog", "group": "rare", "images": 1, "instances": 1},
    ]
    (folder / "categories.json").write_text(json.dumps(rows))


def read_run(folder: Path) -> Any:
    run = RunHistory.load(folder, "run")
    write_report([folder], folder / "report.html", names=["run"])
    return plain([run.recipe, list(run.metrics), dict(run.statistics), run.evaluation, run.commands])


def is_run(folder: Path, result: Any) -> bool:
    recipe = json.loads((folder / "recipe.json").read_bytes())
    lines = (folder / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
    metrics = [json.loads(line) for line in lines if line.strip(b"\r")]
    return plain(recipe) == result[0] and (plain(metrics) == result[1] or b"\r" in b"".join(lines))


def read_settings(folder: Path) -> Any:
    return to_json(changed_recipe(folder, ["training.seed=3"]))


def is_recipe(folder: Path, result: Any) -> bool:
    """The settings of the file with the one that was changed; a whole number may have become a fraction."""
    stored = json.loads((folder / "recipe.json").read_bytes())["settings"]
    stored["training"]["seed"] = 3
    return _with_fractions(stored) == _with_fractions(result)


def _with_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_fractions(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_fractions(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else plain(value)


def read_categories(folder: Path) -> Any:
    return plain(asdict(TrainedCategories.load(folder)))


def are_categories(folder: Path, result: Any) -> bool:
    rows = json.loads((folder / "categories.json").read_bytes())
    return [row["name"] for row in rows] == result["names"] and [row["images"] for row in rows] == result[
        "image_counts"
    ][2]


SUBJECTS = {
    "coco": Subject(("a.json",), write_coco, read_detection, is_coco),
    "index": Subject(("a.index",), write_index, read_index, is_consistent),
    "coco check": Subject(("a.json",), write_coco, check_file, agrees_with_reader),
    "results": Subject(("results.json",), write_detections, read_results, is_results),
    "shards": Subject(("shards/predictions-0000-00000.npz",), write_shards, read_shard_files, is_finite_shard),
    "openimages": Subject(OPENIMAGES, write_openimages, read_openimages_files, is_openimages),
    "openimages results": Subject(("results.json",), write_openimages_results, read_openimages_results, are_fractions),
    "yolo": Subject(("labels/a.txt", "data.yaml", "images/a.png"), write_yolo, read_yolo, has_boxes),
    "voc": Subject(VOC, write_voc, read_voc, has_good_boxes),
    "image list": Subject(("train.txt", "classes.csv"), write_image_list, read_list, is_list),
    "arrays": Subject(("a.npz", "b.npz"), write_arrays, read_array_files, is_array),
    "zip": Subject(("a.zip",), write_zip, read_zip, lambda folder, result: True),
    "pictures": Subject(IMAGES, write_pictures, read_pictures, are_pictures),
    "cifar": Subject(("batches.meta.txt", "test_batch.bin"), write_cifar, read_cifar_files, is_cifar),
    "label maps": Subject(("labels/a.png", "names.txt", "names.csv", "list.txt"), write_maps, read_maps, are_maps),
    "pixel counts": Subject(("cache.npz",), write_cache, read_cached_maps, are_maps),
    "scene parsing": Subject(
        ("objectInfo.csv", "annotations/training/a.png"), write_scene_parsing, read_scene_files, is_scene
    ),
    "run": Subject(RUN_FILES, write_run, read_run, is_run),
    "settings": Subject(("recipe.json",), write_run, read_settings, is_recipe),
    "categories": Subject(("categories.json",), write_run, read_categories, are_categories),
}
