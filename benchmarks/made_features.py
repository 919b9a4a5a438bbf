"""Class-conditional features with the category counts of real benchmarks: a simulation of what a last layer sees.

Each category is a Gaussian cloud. Its centre is near that of a family of about ten categories, whose counts are drawn
at random, so that a rare category has frequent relatives. Training samples are drawn afresh with the real proportions.
In a detection mixture most rows are background: parts of objects, whose centre is scaled by 0 to 0.5. Objects may also
differ from background along one direction that all categories share, as they do in features that a detector has learnt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigrad.data.frequency import Counts, load_frequencies, lvis_split, pareto_profile, pick_categories, shot_split
from equigrad.labels import BACKGROUND

NUM_FEATURES = 32
FAMILY_SIZE = 10
FAMILY_SHARE = 0.5  # of the variance of centres


@dataclass(frozen=True)
class Mixture:
    """What rows of a batch are.

    Args:
        counts: makes (C,) training counts.
        spread: standard deviation of the centres, in units of that of the samples around them.
        objects: share of rows that are objects; 1 is classification, without background.
        batch_size: rows of a step.
        steps: of a training.
        lr: of SGD.
        test_count: test samples of each category.
        prior: probability that sigmoids start with.
        object_shift: how far objects lie from background along the shared direction, in the units of `spread`.
    """

    counts: Callable[[], Counts]
    spread: float
    objects: float = 1.0
    batch_size: int = 512
    steps: int = 1000
    lr: float = 2.0
    test_count: int = 10
    prior: float = 0.001
    object_shift: float = 0.0

    @property
    def task(self) -> str:
        return "classification" if self.objects == 1 else "detection"

    @cached_property
    def category_counts(self) -> Counts:
        return self.counts()

    @cached_property
    def groups(self) -> NDArray[np.str_]:
        """(C,) names: many, medium, few; or frequent, common, rare."""
        split = (shot_split if self.task == "classification" else lvis_split)(self.category_counts)
        names = np.empty(len(self.category_counts), dtype="<U8")
        for name, indices in split.items():
            names[indices] = name.capitalize() if self.task == "classification" else name
        return names


class Drawn:
    """Samples of a mixture; the same seed gives the same centres and the same batches to every method.

    Args:
        mixture: what to draw.
        seed: of centres and samples.
    """

    def __init__(self, mixture: Mixture, seed: int) -> None:
        self.mixture = mixture
        self.generator = torch.Generator().manual_seed(seed)
        self.centres = mixture.spread * self._centres(len(mixture.category_counts))
        self.draw_by(torch.as_tensor(mixture.category_counts))

    @property
    def known_counts(self) -> Counts:
        """(C,) what a loss that needs counts is given."""
        return self.mixture.category_counts

    def draw_by(self, frequencies: Tensor) -> None:
        """Draw categories by these frequencies (C,) from now on."""
        self.cumulative = (frequencies.double() / frequencies.sum()).cumsum(0)

    def _centres(self, num_classes: int) -> Tensor:
        num_families = -(-num_classes // FAMILY_SIZE)
        families = torch.randn(num_families, NUM_FEATURES, generator=self.generator)
        members = torch.randint(num_families, (num_classes,), generator=self.generator)
        own = torch.randn(num_classes, NUM_FEATURES, generator=self.generator)
        return FAMILY_SHARE**0.5 * families[members] + (1 - FAMILY_SHARE) ** 0.5 * own

    def labels(self, number: int) -> Tensor:
        """(N,) categories by frequency."""
        drawn = torch.rand(number, generator=self.generator, dtype=torch.float64)
        return torch.searchsorted(self.cumulative, drawn).clamp(max=len(self.centres) - 1)

    def features(self, labels: Tensor) -> Tensor:
        """(N, D) around the centres of the labels."""
        samples = self.centres[labels] + self._noise(len(labels))
        samples[:, 0] += self.mixture.object_shift
        return samples

    def background(self, number: int) -> Tensor:
        """(N, D) of rows that show a part of an object."""
        scale = 0.5 * torch.rand(number, 1, generator=self.generator)
        return self.centres[self.labels(number)] * scale + self._noise(number)

    def _noise(self, number: int) -> Tensor:
        return torch.randn(number, NUM_FEATURES, generator=self.generator)

    def objects(self, number: int) -> tuple[Tensor, Tensor]:
        """Features (N, D) and labels (N,) of training samples."""
        labels = self.labels(number)
        return self.features(labels), labels

    def batch(self) -> tuple[Tensor, Tensor]:
        """Features (N, D) and labels (N,) of a training step."""
        num_objects = round(self.mixture.objects * self.mixture.batch_size)
        features, labels = self.objects(num_objects)
        if num_objects == self.mixture.batch_size:
            return features, labels
        others = self.background(self.mixture.batch_size - num_objects)
        absent = torch.full((len(others),), BACKGROUND)
        return torch.cat([features, others]), torch.cat([labels, absent])


class TrainingSet(Drawn):
    """A fixed set of objects with the counts of the mixture, from which batches are drawn with repetition."""

    def __init__(self, mixture: Mixture, seed: int) -> None:
        super().__init__(mixture, seed)
        self.sizes = torch.as_tensor(mixture.category_counts)
        self.first = self.sizes.cumsum(0) - self.sizes
        self.samples = self.features(torch.arange(len(self.sizes)).repeat_interleave(self.sizes))

    def objects(self, number: int) -> tuple[Tensor, Tensor]:
        """Samples of the set, each category by its frequency."""
        labels = self.labels(number)
        chosen = (torch.rand(len(labels), generator=self.generator) * self.sizes[labels]).long()
        return self.samples[self.first[labels] + chosen], labels


def lvis_images() -> Counts:
    """1,203 categories, the exact numbers of images of LVIS v1: 1 to 1,977, 360,952 in all."""
    return load_frequencies("lvis_v1").image_counts


def places_lt() -> Counts:
    """365 categories, the exact counts of Places-LT: 5 to 4,980, 62,500 in all."""
    return load_frequencies("places_lt").image_counts


def inaturalist_like() -> Counts:
    """8,142 categories, 1,000 to 2: number and extremes of iNaturalist 2018, with a Pareto curve between them."""
    return pareto_profile(8142, 1000, 500, scale=0.07)


def openimages_like() -> Counts:
    """500 categories, 20,000 to 4: the number of categories of OpenImages, on a Pareto curve of our own."""
    return pareto_profile(500, 20_000, 5000, scale=0.02)


def places_100() -> Counts:
    """100 categories with the counts of Places-LT at evenly spaced ranks."""
    return pick_categories(places_lt(), 100)


def openimages_100() -> Counts:
    """The same of the OpenImages-like profile."""
    return pick_categories(openimages_like(), 100)


# Dense heads start at a higher probability: they have few anchors here, and the focal loss weighs an easy negative by
# its square.
MIXTURES = {
    "places_lt": Mixture(places_lt, spread=0.65, steps=600),
    "lvis_objects": Mixture(lvis_images, spread=0.85, steps=500),
    "inaturalist": Mixture(inaturalist_like, spread=1.0, steps=200, test_count=3),
    "openimages_rois": Mixture(openimages_like, spread=0.8, objects=0.25, steps=1000, object_shift=4.0),
    "lvis_rois": Mixture(lvis_images, spread=0.85, objects=0.25, steps=1000, object_shift=4.0),
    "lvis_anchors": Mixture(lvis_images, spread=0.85, objects=0.125, steps=1000, lr=0.5, prior=0.01),
    "places_100": Mixture(places_100, spread=0.6, batch_size=256, steps=300, test_count=20),
    "rois_100": Mixture(openimages_100, spread=0.7, objects=0.25, batch_size=256, steps=400),
    "anchors_100": Mixture(openimages_100, spread=0.7, objects=0.125, steps=400, lr=0.5, prior=0.01),
}
