"""Samplers as settings: the order in which training samples are visited."""

from typing import Literal

from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, ShuffledSampler

SamplerKind = Literal["random", "repeat_factor", "class_balanced"]
"""Each sample once per epoch, samples of rare categories repeated, or all categories in turn."""

Sampler = ShuffledSampler | RepeatFactorSampler | ClassBalancedSampler
