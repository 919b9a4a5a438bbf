"""Run an exported file of any task on images: what a deployer has to do, without equigrad.

equigrad export runs/own --format onnx
pip install onnxruntime numpy pillow          # for `.pt2` torch, numpy and pillow, and torchvision for detectors
python examples/run_exported.py runs/own/model.onnx photo.jpg

It prints categories with their scores; of a detector, also boxes (x1, y1, x2, y2) in pixels of the photograph; of a
segmenter, the share of pixels of each category.
"""

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

Run = Callable[..., list[np.ndarray]]
SMALLEST_SIDE = 2
SUFFIXES = (".onnx", ".pt2", ".pt")


def load(file: Path) -> tuple[dict[str, Any], Run]:
    """What the file tells about itself, and a function from input arrays to output arrays."""
    if file.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        about = json.loads(session.get_modelmeta().custom_metadata_map["equigrad"])
        return about, lambda *inputs: session.run(None, dict(zip(names, inputs, strict=True)))

    import torch

    extra = {"equigrad.json": ""}
    with contextlib.suppress(ModuleNotFoundError):
        import torchvision  # noqa: F401  # the operators of detectors; other models do without
    if file.suffix == ".pt2":
        module = torch.export.load(file, extra_files=extra).module()
    else:
        module = torch.jit.load(file, _extra_files=extra)

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        with torch.no_grad():
            outputs = module(*map(torch.from_numpy, inputs))
        return [each.numpy() for each in ([outputs] if isinstance(outputs, torch.Tensor) else outputs)]

    return json.loads(extra["equigrad.json"]), run


def upright(file: Path) -> Image.Image:
    """The photograph as people see it: phones store it lying, and say so in EXIF."""
    return ImageOps.exif_transpose(Image.open(file)).convert("RGB")


def batch(image: Image.Image) -> np.ndarray:
    """A batch of one image, (1, 3, H, W) of uint8."""
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)[None])


def classify(about: dict[str, Any], run: Run, image: Image.Image, threshold: float | None) -> Iterator[dict[str, Any]]:
    """The five best categories or, if an image may have several, those that reach the threshold."""
    steps = about["preprocessing"]
    resize, crop = steps["resize"], steps.get("centre_crop")
    if len(resize) == 1:  # the shorter side
        resize = [int(resize[0] * side / min(image.size)) for side in (image.height, image.width)]
    image = image.resize(resize[::-1], Image.Resampling[steps["interpolation"].upper()])
    if crop:
        left, top = (round((have - want) / 2) for have, want in zip(image.size, crop[::-1], strict=True))
        image = image.crop((left, top, left + crop[1], top + crop[0]))
    scores = run(batch(image))[0][0]
    least = threshold if threshold is not None else 0.5 if about["multi_label"] else 0.0
    for label in np.argsort(-scores, kind="stable")[: None if about["multi_label"] else 5]:
        if scores[label] >= least:
            yield {"category": about["categories"][label], "score": float(scores[label])}


def detect(about: dict[str, Any], run: Run, image: Image.Image, threshold: float | None) -> Iterator[dict[str, Any]]:
    """The objects that reach the threshold, best first."""
    steps = about["preprocessing"]
    if "longer_side" in steps:
        factor = steps["longer_side"] / max(image.size)
    else:
        factor = min(steps["shorter_side"] / min(image.size), steps["longer_side_at_most"] / max(image.size))
    width, height = (max(round(side * factor), SMALLEST_SIDE) for side in image.size)
    scaled = batch(image.resize((width, height), Image.Resampling.BILINEAR))

    multiple = steps["multiple_of"]
    padded_height, padded_width = steps.get("pad_to") or (-(-side // multiple) * multiple for side in (height, width))
    canvas = np.zeros((1, 3, padded_height, padded_width), np.uint8)  # the image is at its top left
    canvas[:, :, :height, :width] = scaled

    boxes, scores, labels = (output[0] for output in run(canvas, np.array([[height, width]]))[:3])
    limits = np.array([image.width, image.height] * 2, np.float32)
    boxes = (boxes * (limits / np.array([width, height] * 2, np.float32))).clip(0, limits)
    for box, score, label in zip(boxes, scores, labels, strict=True):
        if label >= 0 and score >= (0.3 if threshold is None else threshold):
            yield {"category": about["categories"][label], "score": float(score), "box": box.tolist()}


def segment(about: dict[str, Any], run: Run, image: Image.Image, threshold: float | None) -> Iterator[dict[str, Any]]:
    """The categories of the image, the largest first. The label map itself is `labels`, (H, W)."""
    size = about["preprocessing"]["size"]
    if size != "any":
        image = image.resize(size[::-1])
    labels = run(batch(image))[0][0]
    counts = np.bincount(labels.ravel(), minlength=len(about["categories"]))
    for label in np.argsort(-counts, kind="stable"):
        if counts[label]:
            yield {"category": about["categories"][label], "share": float(counts[label] / labels.size)}


TASKS = {"classification": classify, "detection": detect, "segmentation": segment}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="an exported file")
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--threshold", type=float, help="minimum score; by default 0.3 for objects")
    parsed = parser.parse_args()
    for file in (parsed.model, *parsed.images):
        if not file.is_file():
            parser.error(f"{file}: no such file")
    if parsed.model.suffix not in SUFFIXES:
        parser.error(f"{parsed.model}: a name that ends in {', '.join(SUFFIXES)} was expected")
    about, run = load(parsed.model)
    for file in parsed.images:
        print(file)
        for found in TASKS[about["task"]](about, run, upright(file), parsed.threshold):
            box = "".join(f"{side:9.1f}" for side in found.get("box", ()))
            number = f"{found['score']:6.3f}" if "score" in found else f"{100 * found['share']:6.1f} %"
            print(f"{number}{box}  {found['category']}")


if __name__ == "__main__":
    main()
