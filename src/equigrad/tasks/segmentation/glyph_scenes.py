"""Glyph scenes with label maps, drawn in memory: segmentation data for tests and first tries."""

import io
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs.layout import GlyphData, SplitScenes
from equigrad.data.glyphs.scenes import LARGE_GLYPHS, Split
from equigrad.data.images.stores import MemoryStore
from equigrad.data.segmentation.data import SegmentationData, SegmentationDataset
from equigrad.data.segmentation.label_maps import LabelValues
from equigrad.data.segmentation.transforms import evaluation_transform, train_transform
from equigrad.evaluation.segmentation import GroupBy


@dataclass(frozen=True)
class GlyphScenes:
    """Scenes of glyphs in which every pixel has a category, the background being the first.

    Args:
        num_glyphs: number of glyph categories, C - 1.
        max_count: how often the most frequent glyph is drawn in training.
        imbalance_factor: its count over that of the rarest, on an exponential profile.
        test_count: how often each glyph is drawn in the test set.
        image_size: side of a scene in pixels.
        difficulty: how hard the drawings are, 0 to 1.
        seed: random seed of the scenes.
        base: size to which scenes are resized; None keeps their size.
        group_by: "count" makes the head, medium and tail groups by training pixels, "index" by label.
    """

    num_glyphs: int = 8
    max_count: int = 200
    imbalance_factor: float = 10.0
    test_count: int = 10
    image_size: int = 64
    difficulty: float = 0.1
    seed: int = 0
    base: tuple[int, int] | None = None
    group_by: GroupBy = "count"

    def load(self) -> tuple[SegmentationDataset, SegmentationDataset]:
        """Draw the scenes and label maps of the training and the test set."""
        # No flips: a mirrored glyph is another character.
        augment = train_transform(self.image_size, base=None, scale=(0.8, 1.25), max_share=1.0, flip=False)
        train, test = _drawn(self, "train"), _drawn(self, "test")
        return SegmentationDataset(train, augment), SegmentationDataset(test, evaluation_transform(None))


@lru_cache(maxsize=2)
def _drawn(settings: GlyphScenes, split: Split) -> SegmentationData:
    """The scenes of a split; kept, because the runs of a comparison draw the same ones."""
    counts = exponential_profile(settings.num_glyphs, settings.max_count, settings.imbalance_factor)
    data = GlyphData(counts, eval_count=settings.test_count, glyphs_per_image=(1, 3), seed=settings.seed)
    style = replace(LARGE_GLYPHS, image_size=settings.image_size).at_difficulty(settings.difficulty)
    glyphs = data.glyphs()
    scenes = SplitScenes(glyphs, data.scenes(split), style, split, data.seed)
    names = tuple(f"{split}_{index:05d}" for index in range(len(scenes)))
    images, maps = {}, {}
    for index, name in enumerate(names):
        scene = scenes[index]
        images[name], maps[name] = _png(scene.image), _png((scene.categories() + 1).astype(np.uint8))
    class_names = ("background", *glyphs.names)
    values = LabelValues.consecutive(len(class_names))
    scenes_store = MemoryStore(images, Path(f"glyph scenes of {split}"))
    maps_store = MemoryStore(maps, Path(f"label maps of {split}"))
    source = str(scenes_store.root)
    return SegmentationData(scenes_store, maps_store, names, names, names, class_names, values, source)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG", compress_level=1)
    return content.getvalue()
