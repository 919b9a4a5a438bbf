"""Tiny detectors of mmdetection in its Runner, on four random images with three objects each."""

import itertools
import os
import tempfile
from unittest.mock import patch

import torch

from tests.integrations import mmdet_operators as mmdet_operators  # before mmdet  # isort: skip

import mmdet.models  # noqa: F401
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmengine.config import ConfigDict
from mmengine.dataset import pseudo_collate
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmengine.structures import InstanceData
from torch.utils.data import DataLoader

import equigrad.integrations.mmdet  # noqa: F401
from equigrad.integrations import HostRun

NUM_CLASSES = 4
_numbers = itertools.count()
OBJECTS = ((0, 0, 1), (2, 0, 3), (0, 1, 0), (3, 0, 2))

_NORM = {"type": "GN", "num_groups": 4}
_BACKBONE = {"type": "ResNet", "depth": 18, "base_channels": 8, "norm_cfg": _NORM, "norm_eval": False}
_PREPROCESSOR = {"type": "DetDataPreprocessor", "mean": [0.0] * 3, "std": [1.0] * 3}
_ASSIGNER = {"type": "MaxIoUAssigner", "pos_iou_thr": 0.5, "neg_iou_thr": 0.4, "min_pos_iou": 0, "ignore_iof_thr": -1}


def _neck(levels):
    return {"type": "FPN", "in_channels": [8, 16, 32, 64], "out_channels": 16, "start_level": 1, "num_outs": levels}


def retinanet(loss_cls):
    head = {
        "type": "RetinaHead",
        "num_classes": NUM_CLASSES,
        "in_channels": 16,
        "feat_channels": 16,
        "stacked_convs": 1,
        "loss_cls": loss_cls,
        "loss_bbox": {"type": "L1Loss"},
        "anchor_generator": {
            "type": "AnchorGenerator",
            "octave_base_scale": 4,
            "scales_per_octave": 1,
            "ratios": [1.0],
            "strides": [8, 16, 32],
        },
    }
    return {
        "type": "RetinaNet",
        "data_preprocessor": _PREPROCESSOR,
        "backbone": _BACKBONE,
        "neck": _neck(3),
        "bbox_head": head,
        "train_cfg": {
            "assigner": _ASSIGNER,
            "sampler": {"type": "PseudoSampler"},
            "allowed_border": -1,
            "pos_weight": -1,
        },
        "test_cfg": {"nms_pre": 50, "score_thr": 0.0, "nms": {"type": "nms", "iou_threshold": 0.5}, "max_per_img": 10},
    }


def faster_rcnn(loss_cls):
    rpn_anchors = {"type": "AnchorGenerator", "scales": [4], "ratios": [1.0], "strides": [8, 16, 32]}
    pooling = {"type": "RoIAlign", "output_size": 3, "sampling_ratio": 1, "use_torchvision": True}
    suppression = {"type": "nms", "iou_threshold": 1.0}  # none: as many proposals in every image
    proposals = {"nms_pre": 50, "max_per_img": 20, "nms": suppression, "min_bbox_size": 0}
    rcnn_assigner = {**_ASSIGNER, "neg_iou_thr": 0.5, "min_pos_iou": 0.5, "match_low_quality": False}
    everything = {"num": 64, "pos_fraction": 1.0, "neg_pos_ub": -1}
    return {
        "type": "FasterRCNN",
        "data_preprocessor": _PREPROCESSOR,
        "backbone": _BACKBONE,
        "neck": _neck(3),
        "rpn_head": {
            "type": "RPNHead",
            "in_channels": 16,
            "feat_channels": 16,
            "anchor_generator": rpn_anchors,
            "loss_bbox": {"type": "L1Loss"},
        },
        "roi_head": {
            "type": "StandardRoIHead",
            "bbox_roi_extractor": {
                "type": "SingleRoIExtractor",
                "roi_layer": pooling,
                "out_channels": 16,
                "featmap_strides": [8, 16, 32],
            },
            "bbox_head": {
                "type": "Shared2FCBBoxHead",
                "in_channels": 16,
                "fc_out_channels": 16,
                "roi_feat_size": 3,
                "num_classes": NUM_CLASSES,
                "reg_class_agnostic": True,
                "loss_cls": loss_cls,
                "loss_bbox": {"type": "L1Loss"},
            },
        },
        "train_cfg": {
            "rpn": {
                "assigner": {**_ASSIGNER, "neg_iou_thr": 0.3, "min_pos_iou": 0.3},
                "sampler": {"type": "PseudoSampler"},
                "allowed_border": -1,
                "pos_weight": -1,
            },
            "rpn_proposal": proposals,
            "rcnn": {
                "assigner": rcnn_assigner,
                "sampler": {"type": "RandomSampler", "add_gt_as_proposals": True, **everything},
                "pos_weight": -1,
            },
        },
        "test_cfg": {
            "rpn": proposals,
            "rcnn": {"score_thr": 0.0, "nms": {"type": "nms", "iou_threshold": 0.5}, "max_per_img": 10},
        },
    }


def build(config):
    init_default_scope("mmdet")
    torch.manual_seed(0)
    model = MODELS.build(ConfigDict(config))
    model.init_weights()
    return model


def samples():
    """All have the same boxes: heads divide by their positives, which must be as many in each micro-batch."""
    random = torch.Generator().manual_seed(1)
    corners = torch.randint(0, 32, (3, 2), generator=random).float()
    found = []
    for categories in OBJECTS:
        sample = DetDataSample(metainfo={"img_shape": (64, 64), "ori_shape": (64, 64), "scale_factor": (1.0, 1.0)})
        sample.gt_instances = InstanceData(
            bboxes=torch.cat([corners, corners + 30], 1), labels=torch.tensor(categories)
        )
        image = torch.randint(256, (3, 64, 64), generator=random, dtype=torch.uint8)
        found.append({"inputs": image, "data_samples": sample})
    return found


class Boxes(BaseMetric):
    """The number of boxes; evaluation needs some metric."""

    def process(self, data_batch, data_samples):
        self.results += [len(sample["pred_instances"]["scores"]) for sample in data_samples]

    def compute_metrics(self, results):
        return {"boxes": sum(results)}


class MmdetRun(HostRun):
    """Four images a step, in so many micro-batches."""

    config = retinanet(
        {
            "type": "EquigradDenseLoss",
            "use_sigmoid": True,
            "loss": {"type": "EqualizedFocalLoss", "num_classes": NUM_CLASSES},
        }
    )
    hooks = ({"type": "EquigradBatchPerStep"},)

    def __init__(self):
        self.module = build(self.config)
        self.folder = tempfile.TemporaryDirectory()

    def runner(self, steps=1, micro_batches=1, resume=None):
        data = samples()
        quiet = {"logger": {"type": "LoggerHook", "interval": 1000}, "checkpoint": None}
        return Runner(
            self.module,
            work_dir=self.folder.name,
            train_dataloader=DataLoader(data, batch_size=4 // micro_batches, collate_fn=pseudo_collate),
            train_cfg={"by_epoch": False, "max_iters": steps * micro_batches, "val_interval": 10**6},
            optim_wrapper={
                "type": "OptimWrapper",
                "optimizer": {"type": "SGD", "lr": 0.01},
                "accumulative_counts": micro_batches,
            },
            val_dataloader=DataLoader(data, batch_size=4, collate_fn=pseudo_collate),
            val_cfg={},
            val_evaluator=[Boxes()],
            custom_hooks=list(self.hooks),
            default_hooks=quiet,
            load_from=str(resume) if resume else None,
            resume=resume is not None,
            default_scope="mmdet",
            experiment_name=f"run{next(_numbers)}",
            log_level="ERROR",
            randomness={"seed": 0},
        )

    def train(self, steps):
        self.last = self.runner(steps)
        self.last.train()

    def evaluate(self):
        self.runner().val()

    def save(self, folder):
        self.last.save_checkpoint(str(folder), "last.pth", by_epoch=False)

    def resume(self, folder):
        # mmengine 0.10.7 saves more than weights, and does not tell torch to load it.
        with patch.dict(os.environ, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1"):
            self.runner(resume=folder / "last.pth").load_or_resume()

    def gradients(self, micro_batches):
        runner, gradients = self.runner(micro_batches=micro_batches), Gradients()
        runner.register_hook(gradients)
        runner.train()
        return gradients.found


class Gradients(Hook):
    """The gradient that the optimiser is about to see."""

    def before_train(self, runner):
        def keep(*_):
            parameters = runner.model.named_parameters()
            self.found = {name: value.grad.clone() for name, value in parameters if value.grad is not None}

        runner.optim_wrapper.optimizer.register_step_pre_hook(keep)


class FasterRun(MmdetRun):
    config = faster_rcnn(
        {"type": "EquigradBoxLoss", "loss": {"type": "SigmoidEqualizationLoss", "num_classes": NUM_CLASSES}}
    )
