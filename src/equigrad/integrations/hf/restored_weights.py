"""The weights of a checkpoint, for models that the Trainer resumes without them."""

import os

from transformers import PreTrainedModel

from equigrad.statistics import find_statistics


def restore(model: PreTrainedModel, checkpoint: str | os.PathLike[str]) -> None:
    """Read the weights of a checkpoint into a model, before the Trainer resumes it.

        hf.restore(model, "out/checkpoint-500")
        trainer.train(resume_from_checkpoint="out/checkpoint-500")

    Many models are saved under other names than they have in memory (ViT, RT-DETR). The Trainer looks for the names in
    memory, warns of missing keys, and goes on with initial weights (transformers issue 43701). `from_pretrained` knows
    both names. Statistics, optimiser and schedule are left to the Trainer.

    Raises:
        ValueError: the checkpoint lacks weights of the model.
    """
    loaded = type(model).from_pretrained(checkpoint).state_dict()
    statistics = find_statistics(model)
    missing = [name for name in model.state_dict() if name not in loaded and name.rpartition(".")[0] not in statistics]
    if missing:
        raise ValueError(f"{checkpoint} has no weights for {missing[0]} ({len(missing)} are missing)")
    model.load_state_dict(loaded, strict=False)
