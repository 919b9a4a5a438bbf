"""Any network of timm (PyTorch Image Models) as a backbone, by its name there. Needs the `timm` extra.

    timm_backbone("mobilenetv3_small_050", "mobilenetv3_small_050.safetensors")      # for a classifier
    dilated_timm("resnet18", output_stride=16)                                       # for a segmenter

Nothing is downloaded: weights come from a file with timm's names. Paths in a model begin with `backbone.network`.
"""

import difflib
import os
from typing import Any

import torch
from torch import Tensor, nn

from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.backbones.normalization import Normalization, PixelStatistics
from equigrad.models.backbones.pretrained import load_backbone, read_weights

Weights = str | os.PathLike[str] | None


class TimmFeatures(nn.Module):
    """Images to one feature vector each, pooled as the network does it.

    Args:
        name: name of the network in timm.
        weights: None, or a file with timm's names of weights.
    """

    def __init__(self, name: str, weights: Weights = None) -> None:
        super().__init__()
        self.network = _network(name, weights)
        self.normalization = _normalization(self.network)
        self.num_features = int(self.network.head_hidden_size)

    def forward(self, images: Tensor) -> Tensor:
        """Features (N, D) of images (N, 3, H, W)."""
        features: Tensor = self.network(self.normalization(images))
        return features


class TimmMaps(nn.Module):
    """Images to the maps of chosen strides, finest first (timm's `features_only`).

    Args:
        name: name of the network in timm.
        weights: None, or a file with timm's names of weights.
        output_stride: stages beyond it dilate instead of stepping; None changes nothing.
    """

    def __init__(self, name: str, weights: Weights = None, *, output_stride: int | None = None) -> None:
        super().__init__()
        self.name = name
        options: dict[str, Any] = {"features_only": True}
        if output_stride is not None:
            options["output_stride"] = output_stride
        if weights is not None:
            # The whole network checks the names; timm then takes from it what the maps need.
            state = _network(name, weights).state_dict()
            options |= {"pretrained": True, "pretrained_cfg_overlay": {"state_dict": state}}
        self.network = _create(name, **options)
        self.normalization = _normalization(self.network)
        info = self.network.feature_info
        self.channels, self.strides = tuple(info.channels()), tuple(info.reduction())
        self.is_channels_last = getattr(self.network, "output_fmt", None) == "NHWC"
        self._try_out()

    def forward(self, images: Tensor) -> list[Tensor]:
        """Maps (N, channels, H / stride, W / stride) of images (N, 3, H, W)."""
        maps: list[Tensor] = self.network(self.normalization(images))
        return [each.permute(0, 3, 1, 2) for each in maps] if self.is_channels_last else maps

    def level(self, stride: int) -> int:
        """Position of the last map of a stride."""
        if stride not in self.strides:
            raise ValueError(f"{self.name} has no map of stride {stride}; its strides are {_joined(self.strides)}")
        return len(self.strides) - 1 - self.strides[::-1].index(stride)

    @torch.no_grad()
    def _try_out(self) -> None:
        """Run the network once, because some take images of one size only and would fail at the first step."""
        try:
            self.eval()(torch.zeros(1, 3, 64, 96, dtype=torch.uint8))
        except (AssertionError, RuntimeError) as error:
            reason = str(error).split("\n")[0]
            raise ValueError(
                f"{self.name} takes images of some sizes only ({reason}); choose another network"
            ) from None
        self.train()


class DilatedTimm(nn.Module):
    """Images to the maps that heads of segmenters take.

    Args:
        name: name of the network in timm.
        weights: None, or a file with timm's names of weights.
        output_stride: 8, 16, or 32 for none dilated.
    """

    def __init__(self, name: str, weights: Weights = None, *, output_stride: int = 16) -> None:
        super().__init__()
        if output_stride not in (8, 16, 32):
            raise ValueError(f"output_stride must be 8, 16 or 32, got {output_stride}")
        self.body = TimmMaps(name, weights, output_stride=output_stride if output_stride < 32 else None)
        self.taken = (self.body.level(4), len(self.body.strides) - 2, len(self.body.strides) - 1)
        if self.body.strides[-1] != output_stride:
            raise ValueError(f"{name} has the output stride {self.body.strides[-1]} and not {output_stride}")
        self.channels = EncoderChannels(*(self.body.channels[index] for index in self.taken))

    def forward(self, images: Tensor) -> EncoderMaps:
        """Maps of images (N, 3, H, W)."""
        maps = self.body(images)
        return EncoderMaps(*(maps[index] for index in self.taken))


def timm_backbone(name: str, weights: Weights = None) -> TimmFeatures:
    """A network of timm for classifiers; see `TimmFeatures`."""
    return TimmFeatures(name, weights)


def dilated_timm(name: str, weights: Weights = None, *, output_stride: int = 16) -> DilatedTimm:
    """A network of timm for segmenters; see `DilatedTimm`."""
    return DilatedTimm(name, weights, output_stride=output_stride)


def _network(name: str, weights: Weights) -> Any:
    """The whole network without its classifier, with the weights of a file."""
    network = _create(name, num_classes=0)
    if weights is not None:
        state = read_weights(weights)
        classifier = network.default_cfg["classifier"] or ()
        names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
        load_backbone(network, state, os.fspath(weights), left_out=tuple(f"{each}." for each in names))
    return network


def _create(name: str, **options: Any) -> Any:
    timm = _timm()
    if not timm.is_model(name):  # also refuses names such as hf-hub:…, which would download
        near = difflib.get_close_matches(name, timm.list_models(), n=5, cutoff=0.5)
        raise ValueError(f"timm has no network {name!r}{f'; near are {_joined(near)}' if near else ''}")
    # Transformers take images of any size only with this argument; other networks do not have it.
    for sizes in ({"dynamic_img_size": True}, {}):
        try:
            return timm.create_model(name, **sizes, **options)
        except TypeError as error:
            if "output_stride" in str(error):
                raise ValueError(
                    f"{name} cannot dilate (timm offers no output_stride for it); choose a convolutional network, "
                    "such as resnet50 or mobilenetv3_large_100"
                ) from None
            if "dynamic_img_size" not in str(error):
                raise
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(f"timm cannot build {name}: {str(error).splitlines()[0]}") from error
    raise AssertionError("one of the two was built or refused")


def _timm() -> Any:
    try:
        import timm
    except ImportError:
        raise ValueError("networks of timm need it installed: pip install 'equigrad[timm]'") from None
    return timm


def _normalization(network: Any) -> Normalization:
    settings = network.default_cfg
    return Normalization(PixelStatistics(tuple(settings["mean"]), tuple(settings["std"])))


def _joined(values: Any) -> str:
    return ", ".join(map(str, values))
