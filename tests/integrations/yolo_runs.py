"""YOLO from its yaml on eight drawn images, and its run for the five checks; nothing is downloaded."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.integrations.yolo_scenes import write_scenes
from ultralytics import YOLO

import equigrad
from equigrad.integrations import HostRun
from equigrad.integrations.ultralytics import equalize

NUM_CLASSES = 3
BATCHES = 2  # in an epoch
NO_AUGMENTATION = dict.fromkeys(("mosaic", "fliplr", "translate", "scale", "hsv_h", "hsv_s", "hsv_v", "erasing"), 0.0)


class Interrupted(Exception):
    """Ends a training in a callback, as Ctrl-C would."""


def interrupt(trainer):
    raise Interrupted


class YoloRun(HostRun):
    """Ultralytics owns the loop, which is left by an exception; an epoch has two batches of four images."""

    def __init__(self, scenes, model="yolov8n.yaml", loss=None):
        self.scenes = scenes
        self.folder = tempfile.TemporaryDirectory()
        self.loss = loss or equigrad.SigmoidEqualizationLoss(NUM_CLASSES)
        self.start(model)

    def start(self, model):
        self.yolo = YOLO(model)
        self.module = equalize(self.yolo, self.loss)

    def run(self, events, **more):
        """Train until a callback interrupts; `events` are callbacks by their names."""
        for event, callback in events.items():
            self.yolo.add_callback(event, callback)
        settings = {
            "data": self.scenes / "data.yaml",
            "epochs": 3,
            "imgsz": 64,
            "batch": 4,
            "nbs": 4,
            "device": "cpu",
            "project": self.folder.name,
            "name": "run",
            "exist_ok": True,
            "plots": False,
            "val": False,
            "amp": False,
            "warmup_epochs": 0,
            "optimizer": "SGD",
            "verbose": False,
            **NO_AUGMENTATION,
            **more,
        }
        try:
            self.yolo.train(**settings)
        except Interrupted:
            for event, callback in events.items():
                self.yolo.callbacks[event].remove(callback)

    def train(self, steps):
        """So many steps of a new training: with all batches of an epoch its checkpoint is written too."""
        assert steps in (1, BATCHES)
        self.run({"on_train_batch_end" if steps < BATCHES else "on_fit_epoch_end": interrupt})

    def evaluate(self):
        self.yolo.trainer.validate()

    def save(self, folder):
        shutil.copytree(Path(self.folder.name) / "run" / "weights", folder, dirs_exist_ok=True)

    def resume(self, folder):
        self.start(folder / "last.pt")
        self.run({"on_train_batch_start": interrupt}, resume=True)

    def weights(self):
        """What Ultralytics keeps: the averaged weights in half precision."""
        trainer = self.yolo.trainer
        model = self.yolo.model if trainer is None else trainer.ema.ema
        return {name: values.half() for name, values in model.named_parameters()}

    def gradients(self, micro_batches):
        """Of eight equal images: each micro-batch is divided by its own sum of targets, with any loss."""
        found = {}

        def before_clipping(trainer):
            def optimizer_step():
                found.update({name: p.grad.clone() for name, p in trainer.model.named_parameters() if p.requires_grad})
                raise Interrupted

            trainer.optimizer_step = optimizer_step

        data = {"data": self.scenes / "same.yaml", "batch": 8 // micro_batches, "nbs": 8}
        self.run({"on_train_start": before_clipping}, **data)
        return found


@cache
def scenes():
    """Scenes that all runs of a process share; gone with it."""
    folder = tempfile.TemporaryDirectory(prefix="equigrad-scenes-")
    _kept.append(folder)
    return write_scenes(Path(folder.name))


_kept: list[tempfile.TemporaryDirectory] = []


def yolov8_run():
    return YoloRun(scenes(), "yolov8n.yaml")


def yolo11_run():
    return YoloRun(scenes(), "yolo11n.yaml")


def yolo26_run():
    return YoloRun(scenes(), "yolo26n.yaml")
