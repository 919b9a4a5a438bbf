"""What the official LVIS evaluator says. Runs in an environment of its own: `pip install lvis==0.5.3 pycocotools`.

python benchmarks/lvis_reference.py annotations.json predictions.json --iou-type bbox
python benchmarks/lvis_reference.py --golden tests/golden/lvis_evaluator.json    # cases that the tests compare with
"""

import argparse
import json
import logging
import resource
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

np.__dict__["float"] = float  # the package was written for numpy 1
from lvis import LVIS, LVISEval, LVISResults  # noqa: E402
from made_detections import add_masks, entries, make_annotations, make_detections  # noqa: E402

FIXED_LIMIT = 4  # small, so that few detections show it


def evaluate(annotations_file, predictions, iou_type, *, fixed_limit=None):
    truth = LVIS(str(annotations_file))
    if fixed_limit is not None:
        predictions = best_of_each_category(predictions, fixed_limit)
    found = LVISResults(truth, predictions, max_dets=300 if fixed_limit is None else -1)
    evaluator = LVISEval(truth, found, iou_type)
    evaluator.run()
    return evaluator


def best_of_each_category(predictions, limit):
    by_category = defaultdict(list)
    for prediction in predictions:
        by_category[prediction["category_id"]].append(prediction)
    return [
        prediction
        for group in by_category.values()
        for prediction in sorted(group, key=lambda row: row["score"], reverse=True)[:limit]
    ]


def pooled_precision(evaluator):
    """AP-pool: the official matches of all categories in one list, by score, then image, then category."""
    num_images, num_sizes = len(evaluator.params.img_ids), len(evaluator.params.area_rng)
    num_categories = len(evaluator.params.cat_ids)
    cells = [
        evaluator.eval_imgs[category * num_sizes * num_images + image]
        for image in range(num_images)
        for category in range(num_categories)
    ]
    cells = [cell for cell in cells if cell is not None]
    order = np.argsort(-np.concatenate([cell["dt_scores"] for cell in cells]), kind="mergesort")
    matched = np.concatenate([cell["dt_matches"] for cell in cells], 1)[:, order] > 0
    ignored = np.concatenate([cell["dt_ignore"] for cell in cells], 1)[:, order] > 0
    num = int(sum((cell["gt_ignore"] == 0).sum() for cell in cells))
    values = []
    for is_true, is_false in zip(matched & ~ignored, ~matched & ~ignored, strict=True):
        true, false = np.cumsum(is_true), np.cumsum(is_false)
        precision = true / np.maximum(true + false, 1)
        levels = [precision[true / num >= recall] for recall in np.linspace(0, 1, 101)]
        values.append(np.mean([level.max() if len(level) else 0 for level in levels]))
    return float(np.mean(values))


def golden_cases():
    """Name, annotations and detections; each shows what its name says."""
    for seed, (name, sizes, options) in enumerate(
        [
            ("ordinary", (8, 8, 20), {}),
            ("tied scores", (8, 4, 25), {"score_digits": 1}),
            ("categories without detections", (8, 12, 15), {}),
            ("images without annotations", (12, 6, 15), {}),
            ("more than 300 detections in an image", (2, 3, 330), {"score_digits": 2}),
            ("detections without area", (8, 5, 15), {}),
        ]
    ):
        num_images, num_categories, per_image = sizes
        share_empty = 0.6 if "without annotations" in name else 0.1
        content = make_annotations(seed, num_images, num_categories, share_empty=share_empty, with_masks=True)
        detections = entries(make_detections(seed, content, per_image, **options))
        if name == "categories without detections":
            detections = [row for row in detections if row["category_id"] % 3]
        if per_image > 300:  # low scores for the good ones, so that the limit takes some of them
            for row in detections:
                row["score"] = round(1 - row["score"], 2)
        if name == "detections without area":
            for row in detections[::4]:
                row["bbox"][2] = 0.0
            for annotation in content["annotations"][::5]:
                annotation["area"] = 0.0
        yield name, content, detections if per_image > 300 else add_masks(detections)


def write_golden(file):
    cases = []
    for name, content, detections in golden_cases():
        case = {"name": name, "annotations": content, "detections": detections, "expected": {}}
        case = json.loads(json.dumps(case))  # the evaluator writes into what it is given
        with tempfile.NamedTemporaryFile("w", suffix=".json") as stream:
            json.dump(content, stream)
            stream.flush()
            for iou_type in ("bbox", "segm") if "segmentation" in detections[0] else ("bbox",):
                fresh = lambda: json.loads(json.dumps(case["detections"]))  # noqa: B023, E731
                expected = dict(evaluate(stream.name, fresh(), iou_type).results)
                fixed = evaluate(stream.name, fresh(), iou_type, fixed_limit=FIXED_LIMIT)
                expected |= {f"{key}-fixed": fixed.results[key] for key in ("AP", "APr", "APc", "APf")}
                expected["AP-pool"] = pooled_precision(fixed)
                case["expected"][iou_type] = {key: float(value) for key, value in expected.items()}
        cases.append(case)
    content = {"made_by": "lvis 0.5.3, benchmarks/lvis_reference.py", "fixed_limit": FIXED_LIMIT, "cases": cases}
    Path(file).write_text(json.dumps(content, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("annotations", nargs="?")
    parser.add_argument("predictions", nargs="?")
    parser.add_argument("--iou-type", default="bbox", choices=("bbox", "segm"))
    parser.add_argument("--golden", type=Path)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    if arguments.golden:
        write_golden(arguments.golden)
        return
    start = time.process_time()
    evaluator = evaluate(arguments.annotations, arguments.predictions, arguments.iou_type)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"result": dict(evaluator.results), "seconds": seconds, "peak": peak}, default=float))


if __name__ == "__main__":
    main()
