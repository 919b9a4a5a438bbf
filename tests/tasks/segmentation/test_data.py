from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from equigrad.tasks.segmentation.data import Ade20k, CamVid, LabelFolders, training_pixels
from equigrad.tasks.smoke_test.generated_scenes import generated_scenes, write_label_folders
from shared_data import shared_folder


def own(tmp_path, **settings):
    return replace(generated_scenes(LabelFolders(), tmp_path), **settings)


def test_images_of_a_user_are_held_out_for_the_test_and_always_the_same(tmp_path):
    train_set, test_set = own(tmp_path).load()
    assert (len(train_set), len(test_set)) == (8, 2)
    assert not set(train_set.data.names) & set(test_set.data.names)
    assert own(tmp_path).load()[1].data.names == test_set.data.names


def test_a_user_may_name_test_folders(tmp_path):
    write_label_folders(tmp_path / "own_scenes")
    write_label_folders(tmp_path / "own_scenes" / "test")
    data = own(tmp_path, test_images=Path("test/images"), test_labels=Path("test/labels"))
    train_set, test_set = data.load()
    assert (len(train_set), len(test_set)) == (10, 10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test_share": 0.01}, "test_share 0.01 of 10 images leaves none to train or none to test on"),
        ({"test_images": Path("images")}, "give both data.test_images and data.test_labels, or neither"),
        ({"names": Path("nowhere.txt")}, "nowhere.txt: no such file of category names; .* --set data.names="),
        ({"labels": Path("nowhere")}, "nowhere: no label maps there"),
    ],
)
def test_what_is_missing_of_a_users_data_is_said_in_one_line(settings, message, tmp_path):
    write_label_folders(tmp_path / "own_scenes")
    with pytest.raises((ValueError, OSError), match=message):
        own(tmp_path, **settings).load()


def test_a_wrong_label_map_is_named_before_training(tmp_path):
    data = own(tmp_path)
    Image.new("L", (128, 80), 77).save(data.root / "labels" / "0.png")
    train_set, _ = replace(data, test_images=Path("images"), test_labels=Path("labels")).load()
    with pytest.raises(ValueError, match=r"labels/0.png: .* values like 77; expected 0..4 or 255"):
        training_pixels(train_set, 0)


def test_ade20k_has_its_list_of_training_images(tmp_path):
    every, test_set = generated_scenes(Ade20k(), tmp_path).load()
    listed, _ = generated_scenes(Ade20k(train_list=Path("list.txt")), tmp_path).load()
    assert (len(every), len(listed), len(test_set)) == (8, 4, 2)
    assert len(every.class_names) == 150
    image, targets = every[0]
    assert image.shape == (3, 64, 64)
    assert targets["labels"].shape == (64, 64)
    sizes = {tuple(test_set[index][1]["labels"].shape) for index in range(2)}
    assert sizes == {(80, 128), (96, 128)}  # tested at the sizes they have


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Ade20k(root=Path("nowhere")), "nowhere: no such folder or archive; .* --set data.root="),
        (Ade20k(root=Path(".")), r"expected images/training/ in it"),
        (Ade20k(root=Path("."), train_list=Path("no.txt")), "no.txt: no such list .*`equigrad data ade20k-lt`"),
        (CamVid(root=Path("nowhere")), "nowhere/classes.csv: no such file; .* --set data.root="),
    ],
)
def test_missing_data_says_what_to_set(data, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=message):
        data.load()


@pytest.mark.shared_data
def test_camvid_has_31_categories_and_crops_to_train_on():
    train_set, test_set = CamVid(root=shared_folder("camvid")).load()
    assert (len(train_set), len(test_set), len(train_set.class_names)) == (421, 168, 31)
    assert train_set[0][0].shape == (3, 192, 256)
    assert test_set[0][0].shape == (3, 360, 480)
