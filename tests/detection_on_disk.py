"""Small detection data for tests: annotation files and the images they name."""

import json

import numpy as np
from PIL import Image

SQUARE = [[2, 1, 6, 1, 6, 5, 2, 5]]
RUNS = {"size": [8, 12], "counts": [10, 4, 82]}  # four pixels of the second column


def image(id_, **fields):
    return {"id": id_, "file_name": f"{id_}.png", "height": 8, "width": 12, **fields}


def annotation(id_, image_id=1, category_id=1, box=(2, 1, 4, 4), **fields):
    return {"id": id_, "image_id": image_id, "category_id": category_id, "bbox": list(box), "area": 16.0, **fields}


def coco(images=None, annotations=None, categories=None):
    """Two images; one object, one crowd and a third annotation in the first, none in the second."""
    return {
        "images": [image(1), image(2)] if images is None else images,
        "annotations": [
            annotation(5, segmentation=SQUARE, iscrowd=0),
            annotation(6, category_id=7, segmentation=RUNS, iscrowd=1),
            annotation(4, category_id=7, box=(0.5, 0, 3, 2), segmentation=[[0, 0, 3, 0, 3, 2]], area=3.0),
        ]
        if annotations is None
        else annotations,
        "categories": [{"id": 7, "name": "dog"}, {"id": 1, "name": "cat"}] if categories is None else categories,
    }


def write_json(file, content):
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def write_pictures(folder, content, seed=0):
    """The image files of a COCO content, random pixels."""
    rng = np.random.default_rng(seed)
    for record in content["images"]:
        file = folder / record["file_name"]
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (record["height"], record["width"], 3), dtype=np.uint8)).save(file)
    return folder


def with_text_ids(content):
    """The same content with texts as ids, as tools write that call an image by its file."""

    def text(id_, kind):
        return f"{kind}-{id_:03}"

    changed = json.loads(json.dumps(content))
    for record in changed["images"]:
        record["id"] = text(record["id"], "image")
        for field in {"neg_category_ids", "not_exhaustive_category_ids"} & record.keys():
            record[field] = [text(id_, "kind") for id_ in record[field]]
    for record in changed["categories"]:
        record["id"] = text(record["id"], "kind")
    for record in changed["annotations"]:
        record["id"] = text(record["id"], "object")
        record["image_id"] = text(record["image_id"], "image")
        record["category_id"] = text(record["category_id"], "kind")
    return changed


def without_sizes(content):
    """The same content without the height and width of its images."""
    images = [
        {key: value for key, value in record.items() if key not in ("height", "width")} for record in content["images"]
    ]
    return {**content, "images": images}
