"""The training engine: from a model, data and settings to a run folder."""

from equigrad.engine.checkpoint import latest_checkpoint, load_checkpoint, load_weights
from equigrad.engine.distributed import launch
from equigrad.engine.ema import Ema
from equigrad.engine.failures import one_voice
from equigrad.engine.optimizers import SGD, AdamW, ParameterRule
from equigrad.engine.schedule import Constant, Cosine, EnoughSteps, MultiStep, Poly, Schedule, Warmup, yolox_schedule
from equigrad.engine.settings import TrainSettings
from equigrad.engine.train import Training, TrainResult, train
from equigrad.errors import EngineError

__all__ = [
    "SGD",
    "AdamW",
    "Constant",
    "Cosine",
    "Ema",
    "EngineError",
    "EnoughSteps",
    "MultiStep",
    "ParameterRule",
    "Poly",
    "Schedule",
    "TrainResult",
    "TrainSettings",
    "Training",
    "Warmup",
    "latest_checkpoint",
    "launch",
    "load_checkpoint",
    "load_weights",
    "one_voice",
    "train",
    "yolox_schedule",
]
