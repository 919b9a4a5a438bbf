"""A tiny RT-DETR in the Trainer, on four random images with three objects each."""

import shutil
import tempfile

import torch
from tests.integrations.hf.classification_run import Gradients, arguments
from tests.integrations.hf.detection_models import (
    NUM_CLASSES,
    d_fine,
    deformable_detr,
    images,
    rt_detr,
    rt_detr_v2,
    targets,
)
from transformers import Trainer
from transformers.trainer_utils import get_last_checkpoint

import equigrad
from equigrad.integrations import HostRun, hf

OBJECTS = ((0, 0, 1), (2, 0, 3), (0, 1, 0), (3, 0, 2))


def samples():
    return [
        {"pixel_values": image, "labels": target} for image, target in zip(images(4), targets(OBJECTS), strict=True)
    ]


def collate(batch):
    pixels = torch.stack([sample["pixel_values"] for sample in batch])
    return {"pixel_values": pixels, "labels": [sample["labels"] for sample in batch]}


class DetectionRun(HostRun):
    build = staticmethod(rt_detr)

    def __init__(self):
        self.module = hf.equalize(self.build(), equigrad.EqualizedFocalLoss(NUM_CLASSES))
        self.folder = tempfile.TemporaryDirectory()

    def trainer(self, callbacks=(), **options):
        options = {"per_device_train_batch_size": 4, "learning_rate": 1e-3, "remove_unused_columns": False} | options
        return Trainer(
            self.module,
            arguments(self.folder.name, **options),
            train_dataset=samples(),
            eval_dataset=samples(),
            data_collator=collate,
            callbacks=[hf.BatchPerStep(), *callbacks],
        )

    def train(self, steps):
        self.trainer(max_steps=steps, save_strategy="steps", save_steps=steps).train()

    def evaluate(self):
        self.trainer(prediction_loss_only=True).evaluate()

    def save(self, folder):
        shutil.copytree(get_last_checkpoint(self.folder.name), folder / "checkpoint-2")

    def resume(self, folder):
        hf.restore(self.module, folder / "checkpoint-2")
        self.trainer(max_steps=2).train(resume_from_checkpoint=str(folder / "checkpoint-2"))

    def gradients(self, micro_batches):
        gradients = Gradients()
        sizes = {"per_device_train_batch_size": 4 // micro_batches, "gradient_accumulation_steps": micro_batches}
        self.trainer(callbacks=[gradients], max_grad_norm=0, **sizes).train()
        return gradients.found


class RTDetrV2Run(DetectionRun):
    build = staticmethod(rt_detr_v2)


class DFineRun(DetectionRun):
    build = staticmethod(d_fine)


class DeformableDetrRun(DetectionRun):
    build = staticmethod(deformable_detr)
