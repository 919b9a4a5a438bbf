"""Tiny random detectors of the DETR family, without what makes a batch differ from its micro-batches."""

import torch
from torch import nn
from transformers import (
    DeformableDetrConfig,
    DeformableDetrForObjectDetection,
    DFineConfig,
    DFineForObjectDetection,
    HGNetV2Config,
    ResNetConfig,
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrResNetConfig,
    RTDetrV2Config,
    RTDetrV2ForObjectDetection,
)

NUM_CLASSES = 4


def targets(objects=((0, 0, 1), (2, 0, 3))):
    """Annotated images, with the categories of their objects."""
    random = torch.Generator().manual_seed(2)
    return [
        {
            "class_labels": torch.tensor(categories, dtype=torch.int64),
            "boxes": torch.rand(len(categories), 4, generator=random) * 0.3 + 0.3,
        }
        for categories in objects
    ]


def images(count=2):
    return torch.randn(count, 3, 64, 64, generator=torch.Generator().manual_seed(1))


_RT_DETR = {
    "num_labels": NUM_CLASSES,
    "d_model": 16,
    "encoder_hidden_dim": 16,
    "encoder_ffn_dim": 16,
    "encoder_layers": 1,
    "encoder_in_channels": [16, 16, 16],
    "decoder_in_channels": [16, 16, 16],
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 16,
    "decoder_layers": 2,
    "num_queries": 12,
    "num_denoising": 6,
    "hidden_expansion": 0.5,
    "label_noise_ratio": 0.0,
    "box_noise_scale": 0.0,
    "freeze_backbone_batch_norms": False,
}


def _resnet():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    return RTDetrResNetConfig(**sizes, out_features=["stage2", "stage3", "stage4"])


def rt_detr(**options):
    return _built(RTDetrForObjectDetection, RTDetrConfig(backbone_config=_resnet(), **_RT_DETR | options))


def rt_detr_v2(**options):
    return _built(RTDetrV2ForObjectDetection, RTDetrV2Config(backbone_config=_resnet(), **_RT_DETR | options))


def d_fine(**options):
    backbone = HGNetV2Config(
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 16, 16, 16],
        stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[16, 16, 16, 16],
        stage_num_blocks=[1, 1, 1, 1],
        stage_downsample=[False, True, True, True],
        stage_light_block=[False, False, True, True],
        stage_kernel_size=[3, 3, 3, 3],
        stage_numb_of_layers=[1, 1, 1, 1],
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 16],
        depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )
    return _built(DFineForObjectDetection, DFineConfig(backbone_config=backbone, **_RT_DETR | options))


def deformable_detr(**options):
    backbone = ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 12, "num_feature_levels": 3}
    plain = {"auxiliary_loss": True, "dropout": 0.0, "num_labels": NUM_CLASSES, "use_timm_backbone": False}
    config = DeformableDetrConfig(backbone_config=backbone, backbone=None, **sizes | heads | plain | options)
    return _built(DeformableDetrForObjectDetection, config)


MODELS = {model.__name__: model for model in (rt_detr, rt_detr_v2, d_fine, deformable_detr)}


def _built(kind, config):
    torch.manual_seed(0)
    model = kind(config)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if "BatchNorm" in type(child).__name__:
                setattr(module, name, nn.Identity())
    return model
