"""Small annotation files and detections for the tests of detection metrics."""

import json

from equigrad.data.detection.formats.coco_json import read_coco


def annotations_of(folder, content):
    """Read annotations that are given as the content of their file."""
    file = folder / "annotations.json"
    file.write_text(json.dumps(content))
    return read_coco(file)


def detections_file(folder, detections):
    file = folder / "detections.json"
    file.write_text(json.dumps(detections))
    return file


def federated(images, annotations, num_categories=3, letters="rcf"):
    """An LVIS file: `images` = {id: (negative, not exhaustive)}, `annotations` = [(image, category, box), …]."""
    return {
        "images": [
            {
                "id": image,
                "file_name": f"{image}.jpg",
                "height": 100,
                "width": 200,
                "neg_category_ids": negative,
                "not_exhaustive_category_ids": partly,
            }
            for image, (negative, partly) in images.items()
        ],
        "categories": [
            {"id": index + 1, "name": f"thing {index + 1}", "frequency": letters[index % 3]}
            for index in range(num_categories)
        ],
        "annotations": [
            {
                "id": index + 1,
                "image_id": image,
                "category_id": category,
                "bbox": box,
                "area": box[2] * box[3],
                "segmentation": [corners(box)],
            }
            for index, (image, category, box) in enumerate(annotations)
        ],
    }


def corners(box):
    x, y, width, height = box
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def detection(image, category, box, score):
    return {"image_id": image, "category_id": category, "bbox": box, "score": score}
