import pytest
import torch
from torch.testing import assert_close

from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.segmentation.fcn import FCNHead, PixelClassifier

CHANNELS = EncoderChannels(low=3, middle=4, last=5)


def encoder_maps():
    shapes = zip(CHANNELS, ((8, 12), (4, 6), (4, 6)), strict=True)
    return EncoderMaps(*(torch.randn(2, channels, *size, requires_grad=True) for channels, size in shapes))


def test_the_auxiliary_head_sees_the_middle_map_alone():
    maps = encoder_maps()
    logits = FCNHead(CHANNELS, 7, channels=16)(maps)
    assert logits.shape == (2, 7, 4, 6)
    gradients = torch.autograd.grad(logits.square().sum(), maps, allow_unused=True)
    assert gradients[0] is gradients[2] is None
    assert (gradients[1] != 0).any()


def test_a_pixel_is_classified_by_its_own_features():
    classifier = PixelClassifier(4, 3, dropout=0.5).eval()
    maps = torch.randn(2, 4, 5, 6)
    weight = classifier.conv.weight.flatten(1)
    assert_close(classifier(maps), torch.einsum("kd,ndhw->nkhw", weight, maps))  # the bias starts at 0


@pytest.mark.parametrize("prior", [0.001, 0.3])
def test_a_prior_is_the_probability_of_a_pixel_without_features(prior):
    classifier = PixelClassifier(4, 3, dropout=0.0)
    classifier.set_prior(prior)
    assert_close(classifier(torch.zeros(1, 4, 2, 2)).sigmoid(), torch.full((1, 3, 2, 2), prior))


def test_dropout_leaves_out_whole_channels_of_an_image():
    classifier = PixelClassifier(64, 1, dropout=0.5)
    kept = classifier.dropout(torch.ones(2, 64, 3, 3)).flatten(2)
    assert (kept == kept[:, :, :1]).all()
    assert 0 < (kept == 0).float().mean() < 1
