import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equigrad.data.frequency import exponential_profile
from equigrad.tasks.classification.data import GlyphImages, OwnImages, PublishedImages
from equigrad.tasks.smoke_test.generated_images import write_folders
from images_on_disk import zip_folder

SMALL = {"num_classes": 4, "max_count": 20, "imbalance_factor": 10.0, "test_count": 3, "image_size": 16}
PUBLISHED = ("imagenet_lt", "places_lt", "inaturalist18")


def pixels_of(dataset, index):
    image, _ = dataset[index]
    return image.numpy()


def test_glyphs_are_long_tailed_in_training_and_balanced_in_the_test():
    train_set, test_set = GlyphImages(**SMALL).load()
    np.testing.assert_array_equal(train_set.category_counts, exponential_profile(4, 20, 10.0))
    assert (train_set.category_counts[0], train_set.category_counts[-1]) == (20, 2)
    assert test_set.category_counts.tolist() == [3] * 4
    assert train_set.class_names == test_set.class_names
    assert pixels_of(train_set, 0).shape == pixels_of(test_set, 0).shape == (3, 16, 16)


def test_the_same_seed_draws_the_same_glyphs():
    first, again, other = (GlyphImages(**SMALL, seed=seed).load()[1] for seed in (0, 0, 1))
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()
    np.testing.assert_array_equal(pixels_of(first, 5), pixels_of(again, 5))


def test_training_shifts_a_glyph_and_the_test_does_not():
    train_set, test_set = GlyphImages(**SMALL).load()
    assert len({pixels_of(train_set, 0).tobytes() for _ in range(8)}) > 1
    assert len({pixels_of(test_set, 0).tobytes() for _ in range(8)}) == 1


@pytest.fixture
def folders(tmp_path):
    """A folder of images for each of three categories; the test lacks the last."""
    write_folders(tmp_path / "train", [3, 2, 1])
    write_folders(tmp_path / "test", [1, 1])
    return tmp_path


@pytest.mark.parametrize("photographs", [True, False])
def test_own_images_have_the_size_and_the_categories_of_training(folders, photographs):
    data = OwnImages(folders / "train", folders / "test", size=24, photographs=photographs)
    train_set, test_set = data.load()
    assert train_set.category_counts.tolist() == [3, 2, 1]
    assert test_set.class_names == train_set.class_names == ("category_0", "category_1", "category_2")
    assert test_set.category_counts.tolist() == [1, 1, 0]
    assert pixels_of(train_set, 0).shape == pixels_of(test_set, 0).shape == (3, 24, 24)


def test_own_images_may_be_folders_of_an_archive(folders):
    archive = zip_folder(folders, folders / "all.zip")
    train_set, test_set = OwnImages(archive / "train", archive / "test", size=24).load()
    assert (len(train_set), len(test_set)) == (6, 2)
    assert pixels_of(test_set, 0).shape == (3, 24, 24)


def test_only_photographs_are_tested_on_their_centre():
    image = Image.fromarray(np.repeat(np.arange(0, 256, 2, dtype=np.uint8)[None, :, None], 128, 0).repeat(3, 2))
    centre, whole = (
        OwnImages(size=32, photographs=photographs).evaluation_transform()(image) for photographs in (True, False)
    )
    assert whole[0, 0, 0] < 8  # the left edge is black
    assert centre[0, 0, 0] > 12  # and cut off


@pytest.mark.parametrize(("size", "resized"), [(224, 256), (112, 128), (299, 342)])
def test_the_centre_is_cut_in_the_published_proportion(size, resized):
    resize, crop, _ = PublishedImages("places_lt", size=size).evaluation_transform().transforms
    assert (resize.size, crop.size) == ([resized], (size, size))


@pytest.mark.parametrize(
    ("missing", "message"),
    [("train", "--set data.train="), ("test", "--set data.test=")],
)
def test_own_images_that_are_missing_are_named_with_what_to_set(folders, missing, message):
    paths = {"train": folders / "train", "test": folders / "test", missing: folders / "nowhere"}
    with pytest.raises(FileNotFoundError, match=f"nowhere: no such file or folder; name yours with {message}"):
        OwnImages(**paths).load()


@pytest.mark.parametrize("benchmark", PUBLISHED)
def test_a_missing_benchmark_says_what_to_place_where(benchmark, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such list; place "):
        PublishedImages(benchmark, root=tmp_path).load()


@pytest.fixture
def places(tmp_path):
    """Places-LT with two training images and a test image, the lists in a folder of their own."""
    images, lists = tmp_path / "images", tmp_path / "lists"
    images.mkdir()
    lists.mkdir()
    content = io.BytesIO()
    Image.new("RGB", (40, 30), (200, 0, 0)).save(content, "JPEG")
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (images / name).write_bytes(content.getvalue())
    (lists / "Places_LT_train.txt").write_text("a.jpg 0\nb.jpg 364\n")
    (lists / "Places_LT_test.txt").write_text("c.jpg 364\n")
    return images, lists


def test_a_benchmark_may_have_its_lists_elsewhere(places):
    images, lists = places
    train_set, test_set = PublishedImages("places_lt", root=images, lists=lists, size=16).load()
    assert (len(train_set), len(test_set), len(train_set.class_names)) == (2, 1, 365)
    assert Path(test_set.sample_name(0)) == images / "c.jpg"
    assert pixels_of(train_set, 1).shape == (3, 16, 16)


def test_colour_jitter_can_be_switched_off(places):
    images, lists = places
    settings = {"root": images, "lists": lists, "size": 16}
    plain, _ = PublishedImages("places_lt", color_jitter=0.0, **settings).load()
    jittered, _ = PublishedImages("places_lt", **settings).load()
    # The image has one colour, which no crop or flip changes.
    assert {int(pixels_of(plain, 0)[0].max()) for _ in range(8)} == {int(pixels_of(plain, 0)[0].min())}
    assert len({int(pixels_of(jittered, 0)[0].max()) for _ in range(8)}) > 1


def test_training_images_may_be_decoded_at_a_reduced_size_and_test_images_are_not(tmp_path):
    for split in ("train", "test"):
        for category in ("cat", "dog"):
            (tmp_path / split / category).mkdir(parents=True)
            Image.new("RGB", (320, 240), (9, 99, 199)).save(tmp_path / split / category / "a.jpg")
    train_set, test_set = OwnImages(tmp_path / "train", tmp_path / "test", decode_size=60).load()
    sizes = []
    for images in (train_set, test_set):
        images.transform = lambda image: sizes.append(image.size)
        images[0]
    assert sizes == [(80, 60), (320, 240)]


@pytest.mark.parametrize("kind", [OwnImages, lambda **changes: PublishedImages("places_lt", **changes)])
def test_a_decoded_size_of_nothing_is_refused(kind):
    with pytest.raises(ValueError, match="decode_size must be above 0, got 0"):
        kind(decode_size=0)
