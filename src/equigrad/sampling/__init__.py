"""Samplers for long-tailed data: repeat-factor sampling (RFS) and class-balanced sampling (CBS).

A sampler fixes one *global order* of image indices for every epoch, which depends on its seed and the epoch only.
Rank r of R takes the indices number r, r + R, r + 2R, … of it. The *position* is how many indices all ranks together
have consumed, so a job may stop after any step and go on with another number of ranks.

    sampler = RepeatFactorSampler(image_categories, threshold=suggest_threshold(image_categories))
    print(sampler.preview())                    # what it does to the epoch, before training
    loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=4)
"""

from equigrad.sampling.presence import (
    CategoryPresence,
    ImageCategories,
    category_repeat_factors,
    image_repeat_factors,
    suggest_threshold,
)
from equigrad.sampling.preview import GROUPS, CategoryPreview, EpochPreview, GroupPreview
from equigrad.sampling.samplers import (
    BalancedForm,
    ClassBalancedSampler,
    RepeatFactorSampler,
    Rounding,
    SeededSampler,
    ShuffledSampler,
)

__all__ = [
    "GROUPS",
    "BalancedForm",
    "CategoryPresence",
    "CategoryPreview",
    "ClassBalancedSampler",
    "EpochPreview",
    "GroupPreview",
    "ImageCategories",
    "RepeatFactorSampler",
    "Rounding",
    "SeededSampler",
    "ShuffledSampler",
    "category_repeat_factors",
    "image_repeat_factors",
    "suggest_threshold",
]
