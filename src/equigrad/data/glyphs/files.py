"""Writing glyph data in the formats of real benchmarks: image lists, LVIS (hence COCO) JSON, SceneParsing folders.

A folder appears complete or not at all. Writing again with the same settings does nothing; a folder with any other
content is refused.
"""

import os
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equigrad.data.glyphs.layout import GlyphData, SplitScenes
from equigrad.data.glyphs.lvis_format import Federation, fill_detection
from equigrad.data.glyphs.scenes import LARGE_GLYPHS, PORTRAIT, SCENE, SceneStyle, Split
from equigrad.data.glyphs.writing import Json, run_jobs, save_image, write_csv, write_once

_VERSION = 1  # increase it when the drawing changes: the same settings then give other data


def write_classification(
    folder: str | os.PathLike[str], data: GlyphData, *, style: SceneStyle = PORTRAIT, num_workers: int = 0
) -> Path:
    """Write images with one glyph each and their lists: `train.txt`, long-tailed, and `test.txt`, balanced.

    Lines are `path label`. There is one folder of images for each category, sorted like the labels, so that readers of
    image folders find the same labels. `classes.csv` has names and counts.
    """
    fill = partial(_fill_classification, data=data, style=style, num_workers=num_workers)
    return write_once(Path(folder), _settings("classification", data, style), fill)


def write_detection(
    folder: str | os.PathLike[str],
    data: GlyphData,
    *,
    num_negatives: int = 8,
    not_exhaustive_rate: float = 0.05,
    style: SceneStyle = SCENE,
    num_workers: int = 0,
) -> Path:
    """Write `annotations/lvis_{train,val}.json` (LVIS v1, boxes and masks) and `images/{train,val}/`.

    Every category has exactly as many annotated instances as `data` asks for; boxes, areas and run-length masks
    describe the visible part. Each image lists `num_negatives` categories as verified absent. A share
    `not_exhaustive_rate` of the images has one more glyph of a category that it already shows; it is not annotated, and
    the category is listed as not exhaustive. `frequency` (r, c, f) follows the training images in both files;
    `image_count` and `instance_count` are those of the file.
    """
    federation = Federation(num_negatives, not_exhaustive_rate)
    fill = partial(fill_detection, data=data, federation=federation, style=style, num_workers=num_workers)
    return write_once(Path(folder), _settings("detection", data, style, federation=asdict(federation)), fill)


def write_segmentation(
    folder: str | os.PathLike[str],
    data: GlyphData,
    *,
    label_background: bool = False,
    style: SceneStyle = LARGE_GLYPHS,
    num_workers: int = 0,
) -> Path:
    """Write the SceneParsing layout: `images/` and `annotations/`, each with `training/` and `validation/`.

    In a label map the background is 0 and category j is j + 1; with `label_background` the background is a category of
    its own with value 1, and glyphs start at 2. Maps have 8 bits, or 16 bits for more than 255 labels.
    `objectInfo.csv` has names, pixel ratios and image counts under ADE20K's column names.
    """
    fill = partial(
        _fill_segmentation, data=data, label_background=label_background, style=style, num_workers=num_workers
    )
    return write_once(Path(folder), _settings("segmentation", data, style, label_background=label_background), fill)


def _settings(task: str, data: GlyphData, style: SceneStyle, **more: object) -> Json:
    return {"glyphs": _VERSION, "task": task, "data": asdict(data), "style": asdict(style), **more}


def _fill_classification(root: Path, data: GlyphData, style: SceneStyle, num_workers: int) -> None:
    glyphs = data.glyphs()
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        folders = [f"{split}/{label:04d}_{name}" for label, name in enumerate(glyphs.names)]
        for folder in folders:
            (root / folder).mkdir(parents=True)
        scenes = SplitScenes(glyphs, data.portraits(split), style, split, data.seed)
        labels = [label for (label,) in scenes.labels]
        files = [f"{folders[label]}/{index:06d}.{data.image_format}" for index, label in enumerate(labels)]
        run_jobs(_PortraitJob(scenes, root, files), len(scenes), num_workers)
        lines = [f"{file} {label}\n" for file, label in zip(files, labels, strict=True)]
        (root / f"{split}.txt").write_text("".join(lines), encoding="utf-8")
    rows = zip(
        range(len(glyphs)), glyphs.names, glyphs.characters, data.counts("train"), data.counts("test"), strict=True
    )
    write_csv(root / "classes.csv", ("label", "name", "character", "train", "test"), rows)


@dataclass(frozen=True)
class _PortraitJob:
    scenes: SplitScenes
    root: Path
    files: list[str]

    def __call__(self, index: int) -> None:
        save_image(self.scenes[index].image, self.root / self.files[index])


def _fill_segmentation(
    root: Path, data: GlyphData, label_background: bool, style: SceneStyle, num_workers: int
) -> None:
    glyphs = data.glyphs()
    names = ["background", *glyphs.names] if label_background else list(glyphs.names)
    folders: dict[Split, str] = {"train": "training", "val": "validation"}
    pixels: dict[Split, NDArray[np.int64]] = {}  # per split (images, C)
    for split, folder in folders.items():
        for kind in ("images", "annotations"):
            (root / kind / folder).mkdir(parents=True)
        scenes = SplitScenes(glyphs, data.scenes(split), style, split, data.seed)
        job = _SegmentationJob(scenes, root, folder, data.image_format, len(names))
        pixels[split] = np.array(run_jobs(job, len(scenes), num_workers)).reshape(-1, len(names))
    _write_object_info(root / "objectInfo.csv", names, pixels, label_background)


@dataclass(frozen=True)
class _SegmentationJob:
    scenes: SplitScenes
    root: Path
    folder: str
    image_format: str
    num_labels: int  # without 0

    def __call__(self, index: int) -> NDArray[np.int32]:
        """Save one image and its label map; return the number of pixels of labels 1 … num_labels."""
        scene = self.scenes[index]
        name = f"{self.folder}/{self.scenes.split}_{index + 1:08d}"
        first = 1 + self.num_labels - len(self.scenes.glyphs)  # 2 where the background has label 1
        labels = scene.categories() + first
        save_image(scene.image, self.root / "images" / f"{name}.{self.image_format}")
        depth = np.uint8 if self.num_labels <= 255 else np.uint16
        save_image(labels.astype(depth), self.root / "annotations" / f"{name}.png")
        return np.bincount(labels.ravel(), minlength=self.num_labels + 1)[1:].astype(np.int32)


def _write_object_info(
    file: Path, names: list[str], pixels: dict[Split, NDArray[np.int64]], label_background: bool
) -> None:
    totals = pixels["train"].sum(0)
    ratios = [f"{ratio:.6f}" for ratio in totals / max(1, totals.sum())]
    images = {split: (counts > 0).sum(0) for split, counts in pixels.items()}
    stuff = [int(label_background and label == 0) for label in range(len(names))]
    rows = zip(range(1, len(names) + 1), ratios, images["train"], images["val"], stuff, names, strict=True)
    write_csv(file, ("Idx", "Ratio", "Train", "Val", "Stuff", "Name"), rows)
