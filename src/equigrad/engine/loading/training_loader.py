"""The batches of a training: what its settings mean for each rank."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from equigrad.engine.loading.step_loader import Collate, ResumableSampler, StepLoader
from equigrad.engine.settings import TrainSettings
from equigrad.errors import EngineError

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def training_loader(
    fabric: "Fabric",
    dataset: Any,
    sampler: ResumableSampler,
    settings: TrainSettings,
    collate: Collate,
    sample_name: Callable[[int], str],
) -> StepLoader:
    """The loader of this rank; EngineError if batch, ranks and data do not fit together."""
    _check_sampler(fabric, sampler)
    loader = StepLoader(
        dataset,
        sampler,
        batch_size=_micro_batch_size(settings, fabric.world_size),
        num_micro_batches=settings.accumulate,
        collate=collate,
        num_workers=settings.num_workers,
        prefetch=settings.prefetch,
        seed=settings.seed,
        on_error=settings.on_error,
        sample_name=sample_name,
        pin_memory=fabric.device.type == "cuda",
    )
    if loader.steps_per_epoch() < 1:
        remedy = f"; --batch-size {len(sampler)} or less" if len(sampler) else ""
        raise EngineError(f"an epoch of {len(sampler)} samples does not fill a batch of {settings.batch_size}{remedy}")
    return loader


def _check_sampler(fabric: "Fabric", sampler: ResumableSampler) -> None:
    built_for, needed = (sampler.rank, sampler.num_replicas), (fabric.global_rank, fabric.world_size)
    if built_for != needed:
        raise ValueError(
            f"the sampler is for rank {built_for[0]} of {built_for[1]}, but this is rank {needed[0]} of {needed[1]}; "
            "build it after launch()"
        )


def _micro_batch_size(settings: TrainSettings, world_size: int) -> int:
    """Samples of one model call."""
    num_parts = world_size * settings.accumulate
    if settings.batch_size % num_parts:
        parts = f"{world_size} processes with accumulate={settings.accumulate}"
        raise EngineError(f"batch_size {settings.batch_size} does not divide evenly among {parts}")
    return settings.batch_size // num_parts
