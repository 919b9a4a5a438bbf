"""Made annotations and detections in the formats of LVIS: for benchmarks and comparisons with the official evaluator.

Needs numpy alone (and pycocotools for masks), because it also runs beside the official evaluator.
"""

import json
from pathlib import Path

import numpy as np

WIDTH, HEIGHT = 640, 480


def make_annotations(seed, num_images, num_categories, *, share_empty=0.1, with_masks=False):
    """A federated data set with a long tail of categories, as the content of an LVIS file."""
    rng = np.random.default_rng(seed)
    popularity = _popularity(num_categories)
    images, annotations = [], []
    for image_id in rng.permutation(np.arange(1, 3 * num_images + 1))[:num_images].tolist():
        present = rng.choice(num_categories, min(rng.geometric(0.25), num_categories), p=popularity)
        present = np.unique(present) if rng.random() > share_empty else present[:0]
        for category in present.tolist():
            for _ in range(min(int(rng.geometric(0.4)), 30)):
                box = _boxes(rng, 1)[0]
                annotation = {"id": len(annotations) + 1, "image_id": image_id, "category_id": category + 1}
                annotations.append(annotation | {"bbox": box.tolist(), "area": round(box[2] * box[3] * 0.7, 2)})
                if with_masks:
                    annotations[-1]["segmentation"] = [_octagon(box)]
        absent = np.setdiff1d(rng.choice(num_categories, min(6, num_categories), p=popularity), present)
        partly = present[rng.random(len(present)) < 0.1]
        lists = {"neg_category_ids": absent + 1, "not_exhaustive_category_ids": partly + 1}
        images.append({"id": image_id, "height": HEIGHT, "width": WIDTH, "file_name": f"{image_id}.jpg"})
        images[-1] |= {name: values.tolist() for name, values in lists.items()}
    letters = ["f" if share > 3e-3 else "c" if share > 3e-4 else "r" for share in popularity]
    categories = [
        {"id": index + 1, "name": f"category {index + 1}", "frequency": letter} for index, letter in enumerate(letters)
    ]
    return {"images": images, "categories": categories, "annotations": annotations}


def make_detections(seed, content, per_image, *, score_digits=4):
    """Copies of annotations, moved a little, and wrong guesses: `per_image` rows an image, as columns."""
    rng = np.random.default_rng(seed)
    of_image = {image["id"]: [] for image in content["images"]}
    for annotation in content["annotations"]:
        of_image[annotation["image_id"]].append((annotation["category_id"], *annotation["bbox"]))
    num_categories = len(content["categories"])
    popularity = _popularity(num_categories)
    parts = []
    for image_id, rows in of_image.items():
        near = np.array(rows * 3, dtype=float).reshape(-1, 5)[:per_image]
        num_random = per_image - len(near)
        near[:, 1:] += rng.normal(0, 0.08, (len(near), 4)) * near[:, [3, 4, 3, 4]]
        labels = rng.choice(num_categories, num_random, p=popularity) + 1
        detections = np.concatenate([near, np.column_stack([labels, _boxes(rng, num_random)])])
        scores = np.concatenate([rng.beta(3, 2, len(near)), rng.beta(1, 8, num_random)])
        detections[:, 3:] = np.maximum(detections[:, 3:], 0)
        parts.append(np.column_stack([np.full(per_image, image_id), detections, scores])[rng.permutation(per_image)])
    table = np.concatenate(parts)
    return {
        "image_id": table[:, 0].astype(np.int64),
        "category_id": table[:, 1].astype(np.int64),
        "bbox": table[:, 2:6].round(2),
        "score": table[:, 6].round(score_digits),
    }


def entries(columns, start=0, end=None):
    """Detections in the standard result format."""
    rows = zip(*(values[start:end].tolist() for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def add_masks(detections):
    """Give detections a mask each, of run lengths."""
    import pycocotools.mask as mask_api

    for detection in detections:
        mask = mask_api.merge(mask_api.frPyObjects([_octagon(np.array(detection["bbox"]))], HEIGHT, WIDTH))
        detection["segmentation"] = {"size": mask["size"], "counts": mask["counts"].decode()}
    return detections


def write_detections(columns, file, with_masks=False):
    """In portions: the list of a large set does not fit in memory."""
    with Path(file).open("w") as stream:
        for start in range(0, len(columns["score"]), 10_000):
            rows = entries(columns, start, start + 10_000)
            rows = add_masks(rows) if with_masks else rows
            stream.write(("," if start else "[") + json.dumps(rows)[1:-1])
        stream.write("]")


def _popularity(num_categories):
    shares = (1 + np.arange(num_categories)) ** -0.9
    return shares / shares.sum()


def _boxes(rng, count):
    sides = np.exp(rng.normal(3.9, 0.9, (count, 2))).clip(4, (WIDTH, HEIGHT))
    corners = rng.random((count, 2)) * ((WIDTH, HEIGHT) - sides)
    return np.concatenate([corners, sides], 1).round(2)


def _octagon(box):
    x, y, width, height = box
    steps = np.array([(0.3, 0), (0.7, 0), (1, 0.3), (1, 0.7), (0.7, 1), (0.3, 1), (0, 0.7), (0, 0.3)])
    return (steps * (width, height) + (x, y)).round(2).ravel().tolist()
