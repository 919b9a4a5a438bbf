import pytest

from engine.toy import NoisyVectors, labels
from equigrad.engine import SGD, EngineError, Schedule, TrainSettings
from equigrad.engine.loading.step_loader import index_name
from equigrad.engine.loading.training_loader import training_loader
from equigrad.sampling import RepeatFactorSampler


def loader(fabric, sampler=None, **changes):
    plain = {"optimizer": SGD(0.1), "schedule": Schedule(epochs=1), "batch_size": 8, "num_workers": 0}
    settings = TrainSettings(**{**plain, **changes})
    sampler = sampler or RepeatFactorSampler([0] * 64, drop_last=True)
    return training_loader(fabric, NoisyVectors(), sampler, settings, list, index_name)


def test_a_step_has_the_batch_of_the_settings_in_micro_batches(fabric):
    steps = list(loader(fabric, accumulate=2).epoch(0, 0))
    assert len(steps) == 8
    assert [[len(batch.samples) for batch in batches] for batches, _ in steps] == [[4, 4]] * 8


def test_a_batch_larger_than_the_epoch_is_refused(fabric):
    with pytest.raises(EngineError, match="64 samples does not fill a batch of 128"):
        loader(fabric, batch_size=128)


def test_a_batch_that_does_not_divide_is_refused(fabric):
    with pytest.raises(EngineError, match="batch_size 8 does not divide evenly among 1 processes with accumulate=3"):
        loader(fabric, accumulate=3)


def test_a_sampler_for_another_rank_is_refused(fabric):
    with pytest.raises(ValueError, match="rank 1 of 2, but this is rank 0 of 1"):
        loader(fabric, RepeatFactorSampler(labels(), rank=1, num_replicas=2))
