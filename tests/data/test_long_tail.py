import numpy as np
import pytest

from equigrad.data.frequency import exponential_profile, pareto_profile
from equigrad.data.images.readers import read_arrays, read_image_list
from equigrad.data.long_tail import long_tailed, with_counts
from shared_data import shared_folder


@pytest.fixture
def images(tmp_path):
    labels = np.repeat(np.arange(5), [40, 100, 100, 30, 100])
    np.savez(tmp_path / "a.npz", images=np.zeros((len(labels), 2, 2, 3), np.uint8), labels=labels)
    return read_arrays(tmp_path / "a.npz")


def test_counts_fall_exponentially_from_the_largest_category(images):
    subset = long_tailed(images, 10)
    head_first = [1, 2, 4, 0, 3]
    assert subset.category_counts[head_first].tolist() == exponential_profile(5, 100, 10).tolist()
    assert subset.class_names == images.class_names


def test_no_category_gets_more_than_there_is(images):
    counts = long_tailed(images, 2, order="label").category_counts
    assert counts.tolist() == [40, 84, 71, 30, 50]


def test_other_profiles_and_orders(images):
    by_label = long_tailed(images, 20, profile="pareto", max_count=30, order="label")
    assert by_label.category_counts.tolist() == pareto_profile(5, 30, 20).tolist()
    drawn = long_tailed(images, 20, max_count=30, order="random", seed=3).category_counts
    assert sorted(drawn, reverse=True) == exponential_profile(5, 30, 20).tolist()


def test_the_seed_decides_and_nothing_else(images):
    first, again, other = (long_tailed(images, 10, seed=seed) for seed in (0, 0, 1))
    assert first.paths == again.paths
    assert first.paths != other.paths
    assert list(first.paths) == sorted(first.paths, key=int)  # in the order of the list


def test_a_steeper_tail_takes_fewer_of_the_same_images(images):
    assert set(long_tailed(images, 50).paths) < set(long_tailed(images, 5).paths)


def test_the_list_is_written_and_read_back(images, tmp_path):
    subset = long_tailed(images, 10)
    back = read_image_list(subset.write(tmp_path / "lt.txt"), tmp_path / "a.npz", num_classes=5)
    assert back.paths == subset.paths
    assert np.array_equal(back.category_counts, subset.category_counts)


def test_exact_counts(images):
    assert with_counts(images, [1, 0, 7, 30, 2]).category_counts.tolist() == [1, 0, 7, 30, 2]
    with pytest.raises(ValueError, match=r"a\.npz: 3 has 30 images, 31 were asked for"):
        with_counts(images, [1, 0, 7, 31, 2])
    with pytest.raises(ValueError, match="5 entries, got 2"):
        with_counts(images, [1, 0])


def test_unknown_settings_are_refused(images):
    with pytest.raises(ValueError, match="profile must be one of"):
        long_tailed(images, 10, profile="linear")
    with pytest.raises(ValueError, match="order must be"):
        long_tailed(images, 10, order="size")


@pytest.mark.shared_data
def test_caltech_gets_the_counts_of_its_published_tail():
    folder = shared_folder("caltech101")
    natural = read_image_list(folder / "train_natural.txt", folder / "images.zip")
    published = read_image_list(folder / "train_lt100.txt", folder / "images.zip")
    counts = long_tailed(natural, 100, max_count=200).category_counts
    assert counts.sum() == pytest.approx(len(published), abs=5)
    assert (counts.max(), counts.min()) == (200, 2)
