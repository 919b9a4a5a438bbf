"""A tiny ViT in the Trainer, on 8 random images."""

import shutil
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification
from transformers.trainer_utils import get_last_checkpoint as last_checkpoint

import equigrad
from equigrad.integrations import HostRun, hf

LABELS = [0, 0, 0, 1, 0, 1, 2, 3]


class Images(Dataset):
    def __init__(self):
        self.images = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"pixel_values": self.images[index], "labels": LABELS[index]}


def tiny_vit(num_labels=4):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return ViTForImageClassification(ViTConfig(**sizes, image_size=16, patch_size=8, num_labels=num_labels))


def arguments(folder, **options):
    quiet = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no", "seed": 0}
    plain = {"use_cpu": True, "max_steps": 1, "per_device_train_batch_size": 8, "learning_rate": 0.1, "optim": "sgd"}
    return TrainingArguments(folder, **quiet | plain | {"lr_scheduler_type": "constant"} | options)


def make_trainer(model, loss, folder, callbacks=(), **options):
    data = Images()
    return Trainer(
        model,
        arguments(folder, **options),
        train_dataset=data,
        eval_dataset=data,
        compute_loss_func=loss,
        callbacks=list(callbacks),
    )


class Gradients(TrainerCallback):
    """The gradient that the optimiser is about to see."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **names):
        self.found = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


class ClassificationRun(HostRun):
    def __init__(self):
        self.module = tiny_vit()
        self.loss = hf.loss(self.module, equigrad.SigmoidEqualizationLoss(4))
        self.folder = tempfile.TemporaryDirectory()

    def trainer(self, **options):
        return make_trainer(self.module, self.loss, self.folder.name, **options)

    def train(self, steps):
        self.trainer(max_steps=steps, save_strategy="steps", save_steps=steps).train()

    def evaluate(self):
        self.trainer().evaluate()

    def save(self, folder):
        shutil.copytree(last_checkpoint(self.folder.name), folder / "checkpoint-2")

    def resume(self, folder):
        hf.restore(self.module, folder / "checkpoint-2")
        self.trainer(max_steps=2).train(resume_from_checkpoint=str(folder / "checkpoint-2"))

    def gradients(self, micro_batches):
        gradients = Gradients()
        sizes = {"per_device_train_batch_size": 8 // micro_batches, "gradient_accumulation_steps": micro_batches}
        self.trainer(callbacks=[gradients], max_grad_norm=0, **sizes).train()
        return gradients.found
