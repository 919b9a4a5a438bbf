"""YOLO from its yaml on eight drawn images, and its run for the five checks; nothing is downloaded."""

import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from ultralytics import YOLO

import equigrad
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.yolo_writing import write_yolo
from equigrad.data.glyphs.files import write_detection
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.glyphs.scenes import SCENE
from equigrad.integrations import HostRun
from equigrad.integrations.ultralytics import equalize

NUM_CLASSES = 3
BATCHES = 2  # in an epoch
NO_AUGMENTATION = dict.fromkeys(("mosaic", "fliplr", "translate", "scale", "hsv_h", "hsv_s", "hsv_v", "erasing"), 0.0)


def write_scenes(folder):
    """`data.yaml` of eight scenes, and `same.yaml` of the first of them eight times, as one object."""
    style = replace(SCENE, image_size=64)
    write_detection(folder / "lvis", GlyphData([24, 5, 3], glyphs_per_image=(4, 4)), style=style)
    scenes = read_coco(folder / "lvis" / "annotations" / "lvis_train.json")
    write_yolo(scenes, folder / "data", folder / "lvis" / "images", with_masks=False)
    first, *_ = (folder / "data" / "images" / "train").iterdir()
    for kind in ("images", "labels"):
        (folder / "same" / kind).mkdir(parents=True)
    for number in range(8):
        shutil.copy(first, folder / "same" / "images" / f"{number}.png")
        # Large: the sum of the soft targets, which are overlaps, must be above 1, as in a usual batch.
        (folder / "same" / "labels" / f"{number}.txt").write_text("1 0.5 0.5 0.9 0.9")
    for name in ("data", "same"):
        settings = {"path": str(folder / name), "train": "images", "val": "images", "names": list("abc")}
        (folder / f"{name}.yaml").write_text(json.dumps(settings))
    return folder


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
