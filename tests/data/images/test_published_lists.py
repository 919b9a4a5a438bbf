import pytest

from equigrad.data.images.published_lists import PUBLISHED, read_published
from images_on_disk import write_images


@pytest.mark.parametrize(
    ("benchmark", "file", "path"),
    [
        ("imagenet_lt", "ImageNet_LT_train.txt", "train/n01440764/0.JPEG"),
        ("places_lt", "Places_LT_train.txt", "data_256/a/airfield/0.JPEG"),
        ("inaturalist18", "iNaturalist18_train.txt", "train_val2018/Plantae/7477/0.JPEG"),
    ],
)
def test_lists_are_read_in_their_published_layout(tmp_path, benchmark, file, path):
    write_images(tmp_path, {path.rsplit("/", 1)[0]: 1}, suffix="JPEG")
    (tmp_path / file).write_text(f"{path} 3\n")
    images = read_published(benchmark, tmp_path, "train")
    assert images.num_classes == PUBLISHED[benchmark].num_classes
    assert images.labels.tolist() == [3]
    assert images.store.read(path).size == (8, 8)


def test_lists_may_lie_elsewhere(tmp_path):
    write_images(tmp_path / "images", {"val/n01440764": 1}, suffix="JPEG")
    (tmp_path / "ImageNet_LT_test.txt").write_text("val/n01440764/0.JPEG 0\n")
    assert len(read_published("imagenet_lt", tmp_path / "images", "test", lists=tmp_path)) == 1


def test_what_to_place_where_is_said_in_one_line(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"iNaturalist18_val\.txt: no such list; place iNaturalist's train_val"):
        read_published("inaturalist18", tmp_path, "test")
    (tmp_path / "ImageNet_LT_train.txt").write_text("train/n01440764/0.JPEG 0\n")
    with pytest.raises(FileNotFoundError, match=r"0\.JPEG: no such image; place ImageNet's train/"):
        read_published("imagenet_lt", tmp_path, "train")


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="benchmark must be one of"):
        read_published("imagenet", tmp_path, "train")
    with pytest.raises(ValueError, match="split must be one of"):
        read_published("imagenet_lt", tmp_path, "training")
