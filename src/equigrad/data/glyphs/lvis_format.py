"""Glyph scenes as LVIS v1 files; COCO tools read them too, since LVIS only adds fields."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equigrad.data.frequency import Counts, lvis_split
from equigrad.data.glyphs.drawing import GlyphSet
from equigrad.data.glyphs.layout import GlyphData, SplitScenes
from equigrad.data.glyphs.scenes import Mask, Scene, SceneStyle, Split, render_scene
from equigrad.data.glyphs.writing import Json, run_jobs, save_image, write_json


@dataclass(frozen=True)
class Federation:
    """Settings of the federated annotation: which categories an image lists as absent or not exhaustive.

    Args:
        num_negatives: number of categories that each image lists as verified absent.
        not_exhaustive_rate: share of images in which one glyph of a listed category is not annotated.
    """

    num_negatives: int
    not_exhaustive_rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.not_exhaustive_rate <= 1 or self.num_negatives < 0:
            raise ValueError(
                "num_negatives must be 0 or more and not_exhaustive_rate in 0..1, "
                f"got {self.num_negatives} and {self.not_exhaustive_rate}"
            )


def fill_detection(root: Path, data: GlyphData, federation: Federation, style: SceneStyle, num_workers: int) -> None:
    """Write images and annotation files of both splits into an empty folder."""
    glyphs = data.glyphs()
    (root / "annotations").mkdir()
    letters = _frequency_letters(_image_counts(data.scenes("train"), len(glyphs)))
    first_id = 1
    splits: tuple[Split, ...] = ("train", "val")
    for split in splits:
        (root / "images" / split).mkdir(parents=True)
        scenes = SplitScenes(glyphs, data.scenes(split), style, split, data.seed)
        job = _DetectionJob(scenes, federation, root / "images", data.image_format, first_id)
        records = run_jobs(job, len(scenes), num_workers)
        image_counts = _image_counts(scenes.labels, len(glyphs))
        categories = _lvis_categories(glyphs, letters, image_counts, data.counts(split))
        write_json(root / "annotations" / f"lvis_{split}.json", _lvis_dataset(split, records, categories))
        first_id += len(scenes)  # image ids do not repeat over the splits


@dataclass(frozen=True)
class _DetectionJob:
    scenes: SplitScenes
    federation: Federation
    root: Path
    image_format: str
    first_id: int

    def __call__(self, index: int) -> tuple[Json, list[Json]]:
        """Save one image; return its LVIS record and its annotations, still without ids."""
        labels, rng = self.scenes.labels[index], self.scenes.rng(index)
        unlisted = [labels[0]] if rng.random() < self.federation.not_exhaustive_rate else []
        scene = render_scene(self.scenes.glyphs, labels + unlisted, self.scenes.style, rng)
        file_name = f"{self.scenes.split}/{self.first_id + index:012d}.{self.image_format}"
        save_image(scene.image, self.root / file_name)
        image = self._image_record(index, file_name)
        image["neg_category_ids"] = self._absent(labels, rng)
        image["not_exhaustive_category_ids"] = [label + 1 for label in unlisted]
        return image, [_annotation(scene, glyph, image["id"]) for glyph in range(len(labels))]

    def _image_record(self, index: int, file_name: str) -> Json:
        size = self.scenes.style.image_size
        return {
            "id": self.first_id + index,
            "width": size,
            "height": size,
            "file_name": file_name,
            # LVIS readers take folder and file name from here; the host is reserved and never exists (RFC 2606).
            "coco_url": f"http://glyphs.invalid/{file_name}",
        }

    def _absent(self, labels: list[int], rng: np.random.Generator) -> list[int]:
        absent = np.setdiff1d(np.arange(len(self.scenes.glyphs)), labels)
        chosen = rng.choice(absent, min(self.federation.num_negatives, len(absent)), replace=False)
        return [label + 1 for label in sorted(chosen.tolist())]


def _annotation(scene: Scene, glyph: int, image_id: int) -> Json:
    mask = scene.mask(glyph)
    rows, columns = np.flatnonzero(mask.any(1)).tolist(), np.flatnonzero(mask.any(0)).tolist()
    return {
        "image_id": image_id,
        "category_id": int(scene.labels[glyph]) + 1,
        "bbox": [columns[0], rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1],
        "area": int(np.count_nonzero(mask)),
        "segmentation": {"size": list(mask.shape), "counts": run_lengths(mask)},
        "iscrowd": 0,
    }


def run_lengths(mask: Mask) -> list[int]:
    """Uncompressed run lengths of COCO: runs down the columns; the first one counts zeros and may be 0."""
    pixels = mask.T.ravel()
    edges = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    lengths: list[int] = np.diff(edges, prepend=0, append=pixels.size).tolist()
    return [0, *lengths] if pixels[0] else lengths


def _image_counts(scenes: list[list[int]], num_categories: int) -> Counts:
    present = [label for labels in scenes for label in set(labels)]
    return np.bincount(np.array(present, dtype=np.int64), minlength=num_categories)


def _frequency_letters(image_counts: Counts) -> list[str]:
    """The frequency letter of each category: `r`, `c` or `f`."""
    letters = np.empty(len(image_counts), dtype="<U1")
    for name, members in lvis_split(image_counts).items():
        letters[members] = name[0]
    return letters.tolist()


def _lvis_categories(glyphs: GlyphSet, letters: list[str], image_counts: Counts, instance_counts: Counts) -> list[Json]:
    return [
        {
            "id": label + 1,
            "name": name,
            "synonyms": [name],
            "synset": f"{name}.n.01",
            "def": f"the character {glyphs.characters[label]}",
            "frequency": letters[label],
            "image_count": int(image_counts[label]),
            "instance_count": int(instance_counts[label]),
        }
        for label, name in enumerate(glyphs.names)
    ]


def _lvis_dataset(split: Split, records: list[tuple[Json, list[Json]]], categories: list[Json]) -> Json:
    annotations = [annotation for _, image_annotations in records for annotation in image_annotations]
    return {
        "info": {"description": f"Generated glyph scenes, {split}", "version": "1.0"},
        "licenses": [],
        "images": [image for image, _ in records],
        "annotations": [{"id": number, **annotation} for number, annotation in enumerate(annotations, start=1)],
        "categories": categories,
    }
