"""Features that are computed once and kept."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close
from torch.utils.data import default_collate

import equigrad
from equigrad.data import feature_cache
from equigrad.data.feature_cache import FeatureDataset, Features, cache_features
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.readers import read_arrays, read_image_folder, read_image_list
from equigrad.data.images.transforms import small_evaluation_transform, whole_image_transform
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.classification.classifier import build_classifier
from images_on_disk import write_images
from shared_data import shared_folder


class CountingNet(SmallConvNet):
    num_calls = 0

    def forward(self, images):
        self.num_calls += 1
        return super().forward(images)


@pytest.fixture
def dataset(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (7, 16, 16, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=pixels, labels=np.array([0, 0, 0, 0, 1, 1, 2]))
    return ImageDataset(read_arrays(tmp_path / "images.npz"), small_evaluation_transform(16))


def test_cached_features_are_those_of_the_images(dataset, tmp_path):
    net = SmallConvNet(2)
    seen = []
    cached = cache_features(
        net, dataset, tmp_path / "new" / "features", batch_size=3, progress=lambda *done: seen.append(done)
    )
    images, targets = default_collate(list(dataset))
    with torch.no_grad():
        assert_close(cached.features, net.eval()(images))
    assert_close(cached.labels, targets["labels"])
    assert seen == [(7, 7)]
    assert cached.category_counts.tolist() == [4, 2, 1]
    assert cached.sample_name(6) == "6"


def test_a_model_on_features_equals_the_model_on_images(dataset, tmp_path):
    loss, scores = equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores()
    model = build_classifier(SmallConvNet(2), 3, loss, scores).eval()
    cached = cache_features(model.backbone, dataset, tmp_path)
    on_features = build_classifier(Features(cached.num_features), 3, loss, scores).eval()
    on_features.classifier.load_state_dict(model.classifier.state_dict())
    images, _ = default_collate(list(dataset))
    on_images = model(images)
    model.sees_features = True
    for first, *others in zip(on_images, model(cached.features), on_features(cached.features), strict=True):
        for other in others:
            assert_close(first["scores"], other["scores"])


def test_they_are_computed_once_and_again_when_anything_changes(dataset, tmp_path):
    net = CountingNet(2)
    first = cache_features(net, dataset, tmp_path)
    again = cache_features(net, dataset, tmp_path)
    assert net.num_calls == 1
    assert torch.equal(first.features, again.features)
    with torch.no_grad():
        next(net.parameters()).mul_(2)
    cache_features(net, dataset, tmp_path)
    assert net.num_calls == 2
    cache_features(net, ImageDataset(dataset.images, small_evaluation_transform(24)), tmp_path)
    assert net.num_calls == 3
    cache_features(net, ImageDataset(dataset.images.subset([0, 1, 2]), dataset.transform), tmp_path)
    assert net.num_calls == 4


def test_an_image_that_is_replaced_in_its_folder_is_computed_anew(tmp_path):
    write_images(tmp_path / "photos", {"cat": 2, "dog": 1}, size=16)
    dataset = ImageDataset(read_image_folder(tmp_path / "photos"), small_evaluation_transform(16))
    net = SmallConvNet(2)
    before = cache_features(net, dataset, tmp_path / "features")
    Image.new("RGB", (16, 16), "red").save(tmp_path / "photos" / dataset.paths[0])
    after = cache_features(net, dataset, tmp_path / "features")
    assert torch.equal(before.features[1], after.features[1])
    assert not torch.equal(before.features[0], after.features[0])


def test_an_interrupted_computation_goes_on_with_the_next_part(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_cache, "_PART", 3)
    net = CountingNet(2)
    expected = cache_features(net, dataset, tmp_path / "whole").features.clone()

    def stop(done, total):
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache_features(net, dataset, tmp_path / "parts", progress=stop)
    assert len(list((tmp_path / "parts").iterdir())) == 2
    net.num_calls = 0
    assert torch.equal(cache_features(net, dataset, tmp_path / "parts").features, expected)
    assert net.num_calls == 1
    assert len(list((tmp_path / "parts").iterdir())) == 1


def test_a_broken_cache_is_computed_anew(dataset, tmp_path):
    net, folder = SmallConvNet(2), tmp_path / "features"
    expected = cache_features(net, dataset, folder).features.clone()
    (file,) = folder.iterdir()
    for damaged in (file.read_bytes()[:100], b"", b"no array", file.read_bytes()[:-4]):
        file.write_bytes(damaged)
        assert torch.equal(cache_features(net, dataset, folder).features, expected)
        assert list(folder.iterdir()) == [file]


def test_what_is_done_to_features_does_not_reach_the_file(dataset, tmp_path):
    cached = cache_features(SmallConvNet(2), dataset, tmp_path / "features")
    (file,) = (tmp_path / "features").iterdir()
    before = file.read_bytes()
    cached.features.zero_()
    assert file.read_bytes() == before


def test_the_backbone_keeps_its_mode_and_its_batch_norm(dataset, tmp_path):
    net = SmallConvNet(2).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    cache_features(net, dataset, tmp_path / "features")
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_items_collate_like_images():
    data = FeatureDataset(torch.rand(4, 3), torch.tensor([0, 1, 1, 0]), class_names=["a", "b"])
    features, targets = default_collate([data[1], data[3]])
    assert_close(features, data.features[[1, 3]])
    assert targets["labels"].tolist() == [1, 0]


def test_features_and_labels_must_agree():
    with pytest.raises(ValueError, match=r"\(4, 3\) and \(5,\)"):
        FeatureDataset(torch.rand(4, 3), torch.zeros(5, dtype=torch.int64), class_names=["a"])


def separability(net, dataset, folder):
    """Share of images whose nearest other image, by angle, is of the same category."""
    cached = cache_features(net, dataset, folder, batch_size=8)
    features = torch.nn.functional.normalize(cached.features - cached.features.mean(0), dim=1)
    similarity = (features @ features.T).fill_diagonal_(-1)
    return (cached.labels[similarity.argmax(1)] == cached.labels).double().mean().item()


@pytest.mark.slow
@pytest.mark.shared_data
def test_trained_features_separate_categories_far_better_than_random_ones(tmp_path):
    folder = shared_folder("caltech101")
    images = read_image_list(folder / "test.txt", folder / "images.zip")
    chosen = [index for index, label in enumerate(images.labels.tolist()) if label % 10 == 0][::2]
    dataset = ImageDataset(images.subset(chosen), whole_image_transform(128))
    trained = separability(EfficientNetLite0(PACKAGE), dataset, tmp_path)
    random = separability(EfficientNetLite0(), dataset, tmp_path)
    assert trained > 0.7
    assert trained > random + 0.3
