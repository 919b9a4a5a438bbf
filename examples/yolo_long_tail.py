"""Ultralytics YOLO with and without an equalization loss, on drawn scenes with a long tail: AP by frequency.

    pip install ultralytics
    python examples/yolo_long_tail.py

Every loss trains the same random weights on the same batches, once for each seed. Rare categories have up to 10
training images, frequent ones more than 100; the test set has ten objects of every category. Finished runs are
not repeated, so an interrupted comparison continues where it stopped.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from ultralytics import YOLO

import equigrad
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.yolo_writing import write_yolo
from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs.files import write_detection
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.glyphs.scenes import SCENE
from equigrad.evaluation import evaluate_predictions
from equigrad.files import write_atomically
from equigrad.integrations.ultralytics import equalize

LOSSES = {
    "ultralytics": None,  # its own binary cross-entropy
    "bce": lambda num_classes: equigrad.BinaryCrossEntropyLoss(),  # the same by our code
    "sigmoid_eql": equigrad.SigmoidEqualizationLoss,
    "eqfl": equigrad.EqualizedQualityFocalLoss,
}
METRICS = ("AP", "APr", "APc", "APf")


def write_data(folder: Path, options: argparse.Namespace) -> Path:
    """Scenes in LVIS's format, and as the YOLO folders that Ultralytics reads."""
    counts = exponential_profile(options.categories, options.max_count, options.max_count / options.min_count)
    style = replace(SCENE, image_size=options.imgsz).at_difficulty(0.2)
    write_detection(folder / "lvis", GlyphData(counts, eval_count=options.test_count), style=style)
    for split in ("train", "val"):
        data = read_coco(folder / "lvis" / "annotations" / f"lvis_{split}.json")
        if not (folder / split).exists():
            write_yolo(data, folder / split, folder / "lvis" / "images", with_masks=False)
    settings = {"path": str(folder.resolve()), "train": "train/images", "val": "val/images"}
    settings["names"] = dict(enumerate(data.categories.names))
    file = folder / "data.yaml"
    file.write_text(json.dumps(settings))  # JSON is YAML
    return file


def train(name: str, seed: int, data: Path, run: Path, options: argparse.Namespace) -> YOLO:
    """One training of Ultralytics; no flips, because a mirrored glyph is another character."""
    yolo = YOLO(options.model)
    if LOSSES[name] is not None:
        equalize(yolo, LOSSES[name](options.categories))
    yolo.train(
        data=str(data),
        epochs=options.epochs,
        imgsz=options.imgsz,
        batch=16,
        nbs=16,
        seed=seed,
        device=options.device,
        project=str(run.parent.resolve()),
        name=run.name,
        exist_ok=True,
        fliplr=0.0,
        mosaic=0.0,
        val=False,
        plots=False,
        verbose=False,
        amp=False,
    )
    return YOLO(run / "weights" / "last.pt")


def evaluate(yolo: YOLO, folder: Path, run: Path, options: argparse.Namespace) -> dict[str, float]:
    """AP of the weights by LVIS's rules, from a file of detections that any tool can read."""
    data = read_coco(folder / "lvis" / "annotations" / "lvis_val.json")
    found = []
    for image, name in zip(data.image_ids.tolist(), data.file_names, strict=True):
        (result,) = yolo.predict(
            folder / "lvis" / "images" / name,
            imgsz=options.imgsz,
            conf=0.001,
            max_det=100,
            device=options.device,
            verbose=False,
        )
        boxes = result.boxes.cpu()
        corners = boxes.xyxy.numpy()
        for box, score, label in zip(corners, boxes.conf.tolist(), boxes.cls.int().tolist(), strict=True):
            sides = [float(value) for value in (*box[:2], *(box[2:] - box[:2]))]
            category = int(data.categories.ids[label])
            found.append({"image_id": image, "category_id": category, "bbox": sides, "score": score})
    (run / "predictions.json").write_text(json.dumps(found))
    result = evaluate_predictions(run / "predictions.json", data).result()
    return {name: result[name] for name in METRICS}


def table(results: dict[str, list[dict[str, float]]]) -> str:
    """Per cent: the mean over seeds ± half their difference."""
    rows = [["loss", *METRICS]]
    for name, seeds in results.items():
        values = [[100 * result[metric] for result in seeds] for metric in METRICS]
        rows.append([name, *(f"{np.mean(v):.1f} ± {(max(v) - min(v)) / 2:.1f}" for v in values)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=["ultralytics", "sigmoid_eql"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--model", default="yolo11n.yaml", help="of Ultralytics; a .yaml starts at random weights")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--categories", type=int, default=16)
    parser.add_argument("--max-count", type=int, default=200, help="objects of the most frequent category")
    parser.add_argument("--min-count", type=int, default=4, help="objects of the rarest category")
    parser.add_argument("--test-count", type=int, default=10, help="objects of every category in the test set")
    parser.add_argument("--imgsz", type=int, default=96)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=Path("runs/yolo_long_tail"))
    options = parser.parse_args(words)
    data = write_data(options.folder / "data", options)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in options.losses}
    for seed in range(options.seeds):
        for name in options.losses:
            run = options.folder / f"{name}_{seed}"
            file = run / "result.json"
            if not file.exists():
                yolo = train(name, seed, data, run, options)
                result = evaluate(yolo, data.parent, run, options)
                write_atomically(file, json.dumps(result).encode())
            results[name].append(json.loads(file.read_text()))
            print(name, seed, results[name][-1], flush=True)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
