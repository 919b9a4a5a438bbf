"""Which categories each generated image shows, so that every category occurs exactly as often as requested."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equigrad.data.frequency import Counts, checked_counts
from equigrad.data.glyphs.drawing import GlyphSet, choose_glyphs
from equigrad.data.glyphs.scenes import PORTRAIT, Scene, SceneStyle, Split, render_scene, scene_rng


@dataclass(frozen=True)
class GlyphData:
    """What a generated data set contains: a long-tailed training split and a balanced split for evaluation.

    Args:
        train_counts: number of glyphs of each category in training, (C,); `equigrad.data.frequency` has profiles.
        eval_count: number of glyphs of every category in the `val` or `test` split.
        glyphs_per_image: smallest and largest number of glyphs in a scene (classification uses one).
        seed: the same seed gives the same data.
        num_fonts: largest number of fonts in which a category appears.
        image_format: `png` is lossless; `jpg` has a fifth of the size and is faster.
    """

    train_counts: Sequence[int] | Counts
    eval_count: int = 10
    glyphs_per_image: tuple[int, int] = (2, 6)
    seed: int = 0
    num_fonts: int = 3
    image_format: Literal["png", "jpg"] = "png"

    def __post_init__(self) -> None:
        least, greatest = self.glyphs_per_image
        if not 1 <= least <= greatest:
            raise ValueError(f"glyphs_per_image must be (least, greatest) with 1 <= least, got {self.glyphs_per_image}")
        if self.eval_count < 0 or self.seed < 0:
            raise ValueError(f"eval_count and seed must be 0 or more, got {self.eval_count} and {self.seed}")
        if self.image_format not in ("png", "jpg"):
            raise ValueError(f'image_format must be "png" or "jpg", got {self.image_format!r}')
        # As a tuple, so that data compares and hashes by value.
        object.__setattr__(self, "train_counts", tuple(checked_counts(self.train_counts).tolist()))

    @property
    def num_categories(self) -> int:
        """C, the number of categories."""
        return len(self.train_counts)

    def glyphs(self) -> GlyphSet:
        """The characters that are the categories."""
        return choose_glyphs(self.num_categories, self.num_fonts)

    def counts(self, split: Split) -> Counts:
        """Number of glyphs of each category in the split, (C,)."""
        if split == "train":
            return np.array(self.train_counts, dtype=np.int64)
        return np.full(self.num_categories, self.eval_count, dtype=np.int64)

    def portraits(self, split: Split) -> list[list[int]]:
        """The category of each image if every image shows one glyph, as lists of length 1."""
        return [[label] for label in self._shuffled(split, scene_rng(self.seed, split)).tolist()]

    def scenes(self, split: Split) -> list[list[int]]:
        """The categories of each scene; the last scene may have fewer glyphs than `glyphs_per_image` says."""
        rng = scene_rng(self.seed, split)
        labels = self._shuffled(split, rng)
        least, greatest = self.glyphs_per_image
        ends = np.cumsum(rng.integers(least, greatest + 1, size=-(-len(labels) // least)))
        return [scene.tolist() for scene in np.split(labels, ends[ends < len(labels)]) if len(scene)]

    def _shuffled(self, split: Split, rng: np.random.Generator) -> NDArray[np.int64]:
        """Every category as often as `counts` says, in random order."""
        return rng.permutation(np.repeat(np.arange(self.num_categories), self.counts(split)))


@dataclass(frozen=True)
class SplitScenes:
    """The scenes of a split, rendered on access; `scenes[i]` depends only on seed, split and i."""

    glyphs: GlyphSet
    labels: list[list[int]]
    style: SceneStyle
    split: Split
    seed: int

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Scene:
        return render_scene(self.glyphs, self.labels[index], self.style, self.rng(index))

    def rng(self, index: int) -> np.random.Generator:
        """The random generator of scene `index`."""
        return scene_rng(self.seed, self.split, index)


def glyph_images(
    data: GlyphData, split: Split, *, style: SceneStyle = PORTRAIT
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Classification data in memory: images (N, H, W, 3) with one glyph each, and labels (N,).

    `write_classification` writes the same images for the same arguments.
    """
    scenes = SplitScenes(data.glyphs(), data.portraits(split), style, split, data.seed)
    images = np.empty((len(scenes), style.image_size, style.image_size, 3), dtype=np.uint8)
    for index in range(len(scenes)):
        images[index] = scenes[index].image
    return images, np.array(scenes.labels, dtype=np.int64).reshape(-1)
