"""`equigrad data` on images with labels: counts, checks and long-tailed subsets."""

import shutil
import subprocess
import sys

import numpy as np

from commands.running_commands import equigrad
from detection_on_disk import coco, write_json
from images_on_disk import write_images, write_list, zip_folder


def test_data_counts_shows_groups_and_bars(photos, tmp_path):
    done = equigrad("data", "counts", photos / "train", "--csv", tmp_path / "counts.csv")
    assert done.code == 0, done.err
    assert "21 images, 3 categories, from 12 to 3 images each, imbalance factor 4" in done.out
    assert "few                3          21   100.0%" in done.out
    bars = {line.split()[0]: line.count("█") for line in done.out.splitlines() if "█" in line}
    assert bars == {"cat": 40, "dog": 20, "eel": 10}
    assert (tmp_path / "counts.csv").read_text().splitlines()[1:] == ["0,cat,12,few", "1,dog,6,few", "2,eel,3,few"]


def test_data_check_passes_what_is_right_and_fails_what_is_not(photos):
    done = equigrad("data", "check", photos / "train", "--test", photos / "test")
    assert done.code == 0, done.err
    assert "nothing that would make training wrong" in done.out
    shutil.copy(photos / "train" / "cat" / "0.png", photos / "test" / "cat" / "copy.png")
    (photos / "train" / "dog" / "bad.png").write_bytes(b"no image")
    done = equigrad("data", "check", photos / "train", "--test", photos / "test", "--decode")
    assert done.code == 1
    assert "error: " in done.out
    assert "test images also in training, by content: cat/copy.png = cat/0.png" in done.out
    assert f"damaged images: {photos / 'train' / 'dog' / 'bad.png'}" in done.out
    assert "2 kinds of faults" in done.err


def test_data_check_only_notes_an_empty_category(tmp_path):
    paths = write_images(tmp_path, {"a": 2, "b": 1}, size=8)
    file = write_list(tmp_path / "train.txt", {"a": paths["a"], "none": [], "b": paths["b"]})
    done = equigrad("data", "check", file)
    assert done.code == 0, done.err
    assert "note: " in done.out
    assert "categories without images: 1" in done.out
    (tmp_path / paths["b"][0]).unlink()
    done = equigrad("data", "check", file)
    assert done.code == 1
    assert f"missing files: {tmp_path / paths['b'][0]}" in done.out


def test_long_tail_writes_a_list_that_training_reads(photos):
    words = ["data", "long-tail", photos / "train", "--output", photos / "lists" / "lt.txt", "--imbalance-factor", 12]
    done = equigrad(*words)
    assert done.code == 0, done.err
    assert "16 images, 3 categories" in done.out
    assert f"--set data.root={photos / 'train'}" in done.out
    counted = equigrad("data", "counts", photos / "lists" / "lt.txt", "--root", photos / "train")
    assert "from 12 to 1 images each" in counted.out
    assert "eel" in counted.out  # the names went along
    again = equigrad(*words)
    assert again.code == 1
    assert "lt.txt exists; --force replaces it" in again.err
    before = (photos / "lists" / "lt.txt").read_text()
    assert equigrad(*words, "--force").code == 0
    assert (photos / "lists" / "lt.txt").read_text() == before


def test_long_tail_does_not_rename_the_categories_of_another_list(photos):
    (photos / "classes.csv").write_text("label,name\n0,ant\n1,bee\n")
    done = equigrad("data", "long-tail", photos / "train", "--output", photos / "lt.txt")
    assert done.code == 1
    assert "classes.csv has other categories" in done.err
    assert not (photos / "lt.txt").exists()


def test_arrays_and_archives_are_read_and_written(photos):
    arrays = photos / "arrays.npz"
    np.savez(arrays, images=np.zeros((9, 4, 4, 3), dtype=np.uint8), labels=np.repeat([0, 1, 2], 3))
    done = equigrad("data", "long-tail", arrays, "--output", photos / "lt.npz", "--imbalance-factor", 3)
    assert done.code == 0, done.err
    with np.load(photos / "lt.npz", allow_pickle=False) as stored:
        assert np.bincount(stored["labels"]).tolist() == [3, 2, 1]
        assert stored["images"].shape == (6, 4, 4, 3)
    assert equigrad("data", "long-tail", arrays, "--output", photos / "lt.txt", "--imbalance-factor", 3).code == 0
    assert "6 images" in equigrad("data", "counts", photos / "lt.txt", "--root", arrays).out
    zipped = zip_folder(photos / "train", photos / "train.zip")
    assert "21 images" in equigrad("data", "counts", zipped).out


def test_cifar_becomes_arrays(tmp_path):
    (tmp_path / "batches.meta.txt").write_text("plane\ncar\n")
    record = np.zeros((2, 3073), dtype=np.uint8)
    record[1, 0] = 1
    for name in ["test_batch", *(f"data_batch_{number}" for number in range(1, 6))]:
        record.tofile(tmp_path / f"{name}.bin")
    assert "10 images, 2 categories" in equigrad("data", "counts", tmp_path).out
    assert "2 images, 2 categories" in equigrad("data", "counts", tmp_path, "--split", "test").out
    refused = equigrad("data", "long-tail", tmp_path, "--output", tmp_path / "lt.txt")
    assert "expected a name that ends in .npz" in refused.err
    assert equigrad("data", "long-tail", tmp_path, "--output", tmp_path / "lt.npz", "--imbalance-factor", 5).code == 0
    assert "from 5 to 1" in equigrad("data", "counts", tmp_path / "lt.npz").out


def test_names_of_folders_neither_move_the_terminal_nor_become_formulas(tmp_path):
    names = ["\x1b[31mred\x07", "=1+1", "two\nlines"]
    write_images(tmp_path / "photos", dict.fromkeys(names, 2), size=8)
    done = equigrad("data", "counts", "photos", "--csv", "counts.csv", folder=tmp_path)
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert r"\x1b[31mred\x07" in done.out
    assert r"two\nlines" in done.out
    assert ",'=1+1," in (tmp_path / "counts.csv").read_text()
    done = equigrad("data", "long-tail", "photos", "--output", "lt/lt.txt", "--root", "photos", folder=tmp_path)
    assert "\x1b" not in done.out
    assert "'=1+1" in (tmp_path / "lt" / "classes.csv").read_text()


def test_a_defused_name_is_read_back_as_it_was(tmp_path):
    write_images(tmp_path / "photos", {"=1+1": 2, "@dog": 2}, size=8)
    for _ in range(2):  # the second time the names beside the list are compared with those of the folder
        done = equigrad("data", "long-tail", "photos", "--output", "lt/lt.txt", folder=tmp_path)
        (tmp_path / "lt" / "lt.txt").unlink(missing_ok=True)
        assert done.code == 0, done.err
    equigrad("data", "long-tail", "photos", "--output", "lt/lt.txt", folder=tmp_path)
    done = equigrad("data", "counts", "lt/lt.txt", "--root", "photos", folder=tmp_path)
    assert "=1+1" in done.out
    assert "'=1+1" not in done.out


def test_the_name_of_a_missing_file_does_not_move_the_terminal(tmp_path):
    done = equigrad("data", "counts", "\x1b[2J\nnowhere", folder=tmp_path)
    assert done.err.startswith(r"equigrad: \x1b[2J nowhere: no such list")
    assert done.err.count("\n") == 1


def test_a_folder_of_an_archive_is_data(photos):
    zipped = zip_folder(photos, photos / "all.zip")
    done = equigrad("data", "check", zipped / "train", "--test", zipped / "test")
    assert done.code == 0, done.err
    assert f"21 images of {zipped}/train and" in done.out
    done = equigrad("data", "check", zipped / "val")
    assert done.err.endswith("all.zip/val: no such folder in the archive; it has test, train\n")


def test_a_published_list_is_recognised_by_its_name_and_totals(tmp_path):
    np.savez(tmp_path / "images.npz", images=np.zeros((20_000, 1, 1, 3), np.uint8))
    lines = [f"{index} {index % 1000}\n" for index in range(20_000)]
    file = tmp_path / "ImageNet_LT_val.txt"
    file.write_text("".join(lines))
    done = equigrad("data", "check", file, "--root", tmp_path / "images.npz")
    assert done.code == 0, done.err
    assert "this is ImageNet-LT val as published: 20,000 images, 1,000 categories" in done.out
    file.write_text("".join(lines[:-1]))
    done = equigrad("data", "check", file, "--root", tmp_path / "images.npz")
    assert "not ImageNet-LT val as published: 19,999 images instead of 20,000, 19 images of the rarest" in done.out


def test_a_split_that_cifar_does_not_have_is_refused(photos):
    done = equigrad("data", "counts", photos / "train", "--split", "val")
    assert (done.code, "--split: expected train or test" in done.err) == (2, True)


def test_checks_and_counts_start_without_torch(tmp_path):
    write_json(tmp_path / "a.json", coco())
    write_images(tmp_path / "photos", {"cat": 1, "dog": 1})
    code = (
        "import sys\nfrom equigrad.cli import main\n"
        "for words in (['check', 'a.json'], ['counts', 'a.json'], ['check', 'photos'], ['counts', 'photos']):\n"
        "    assert main(['data', *words]) == 0\n"
        "print([name for name in ('torch', 'torchvision', 'matplotlib', 'lightning') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout.splitlines()[-1] == "[]"
