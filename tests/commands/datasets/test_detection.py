import json

import pytest
from PIL import Image

from detection_on_disk import SQUARE, annotation, coco, image, write_json, write_pictures
from equigrad.cli import main
from images_on_disk import zip_folder


def run(capsys, *words):
    status = main([str(word) for word in words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_a_clean_file_is_fit_for_training(tmp_path, capsys):
    content = coco([image(1)], [annotation(1, segmentation=SQUARE), annotation(2, category_id=7, segmentation=SQUARE)])
    file = write_json(tmp_path / "a.json", content)
    images = write_pictures(tmp_path / "images", content)
    status, out, _ = run(capsys, "data", "check", file, "--images", images)
    assert status == 0
    assert out == f"{file}: fit for training: 0 kinds of error, 0 kinds of warning\n"


def test_a_fault_that_spoils_training_has_status_1(tmp_path, capsys):
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1, category_id=5)]))
    status, out, err = run(capsys, "data", "check", file)
    assert status == 1
    assert out.startswith("error: annotations of unknown categories: annotation 1: category_id 5\n")
    assert err == f"equigrad: {file}: training would be wrong: 1 kind of error, 0 kinds of warning\n"


def test_a_warning_alone_has_status_0(tmp_path, capsys):
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1, box=(1, 1, 0, 1))]))
    status, out, _ = run(capsys, "data", "check", file)
    assert status == 0
    assert "warning: boxes without area: annotation " in out


def test_missing_images_have_status_1(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    file = write_json(tmp_path / "a.json", coco())
    status, out, _ = run(capsys, "data", "check", file, "--images", tmp_path / "images")
    assert status == 1
    assert "error: missing image files: 2" in out


def test_stats_show_the_tail_and_what_repeat_factor_sampling_makes_of_it(tmp_path, capsys):
    file = write_json(tmp_path / "a.json", coco())
    table, figure = tmp_path / "categories.csv", tmp_path / "tail.png"
    status, out, _ = run(capsys, "data", "stats", file, "--groups", "quantiles", "--csv", table, "--figure", figure)
    assert status == 0
    assert "quantile 2" in out
    assert "repeat-factor sampling, --repeat-threshold 0.001:" in out
    assert "equigrad train own_data:detection … --set sampler=repeat_factor --set repeat_threshold=0.5" in out
    assert table.read_text().splitlines()[0] == "category,id,name,images,instances,group"
    assert Image.open(figure).width > 500


@pytest.fixture
def folders(tmp_path, capsys):
    """The same objects as a COCO file, a VOC folder and a YOLO folder."""
    write_pictures(tmp_path / "images", coco())
    file = write_json(tmp_path / "a.json", coco())
    for layout in ("voc", "yolo"):
        run(capsys, "data", "convert", "coco", file, tmp_path / layout, "--to", layout, "--images", tmp_path / "images")
    return tmp_path


@pytest.mark.parametrize("source", ["a.json", "voc", "yolo"])
def test_every_form_of_detection_data_is_counted(folders, capsys, source):
    status, out, err = run(capsys, "data", "counts", folders / source, "--csv", folders / "counts.csv")
    assert status == 0, err
    assert f"{folders / source}: 2 images" in out
    assert (folders / "counts.csv").read_text().splitlines()[1:] == [
        "0,1,cat,1,1,rare",
        f"1,{_dog(source)},dog,1,1,rare",
    ]


def _dog(source):
    """The id of the second category, which only COCO keeps."""
    return 7 if source == "a.json" else 2


def test_counts_say_how_many_categories_they_show(tmp_path, capsys):
    categories = [{"id": index, "name": f"c{index}"} for index in range(1, 31)]
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1)], categories=categories))
    _, out, _ = run(capsys, "data", "counts", file)
    assert out.endswith("20 of 30 categories are shown; --all shows all, --csv FILE writes them\n")
    _, out, _ = run(capsys, "data", "counts", file, "--all")
    assert len([line for line in out.splitlines() if line.endswith(" rare")]) == 30
    assert "are shown" not in out


@pytest.mark.parametrize(("source", "image_folder"), [("voc", "JPEGImages"), ("yolo", "images")])
def test_folders_are_checked_with_their_own_images(folders, capsys, source, image_folder):
    status, out, err = run(capsys, "data", "check", folders / source, "--decode")
    assert status == 0, err
    assert out.splitlines()[-1].startswith(f"{folders / source}: fit for training")
    status, _, err = run(capsys, "data", "check", folders / source, "--images", folders)
    assert (status, "leave --images out" in err) == (2, True)
    (folders / source / image_folder / "1.png").unlink()
    status, _, err = run(capsys, "data", "check", folders / source)
    assert (status, "1." in err) == (1, True)


def test_a_test_file_is_checked_too_and_named(tmp_path, capsys):
    train = write_json(tmp_path / "train.json", coco())
    test = write_json(tmp_path / "test.json", coco(annotations=[annotation(1), annotation(2, box=(1, 1, 0, 1))]))
    status, out, _ = run(capsys, "data", "check", train, "--test", test)
    assert status == 0
    assert f"warning: {test}: boxes without area: annotation " in out
    assert f"warning: {test}: categories of training that the test set does not have" in out
    write_json(test, coco(annotations=[annotation(1, category_id=9)]))
    status, out, _ = run(capsys, "data", "check", train, "--test", test)
    assert status == 1
    assert f"error: {test}: annotations of unknown categories" in out


def test_a_test_folder_of_voc_has_the_categories_of_training(folders, tmp_path, capsys):
    (folders / "voc" / "classes.txt").unlink()  # without it a folder has the categories that occur in it
    few = coco([image(3)], [annotation(1, 3, 7, iscrowd=0)])
    file = write_json(tmp_path / "few.json", few)
    write_pictures(tmp_path / "images", few, seed=1)
    run(capsys, "data", "convert", "coco", file, tmp_path / "few", "--to", "voc", "--images", tmp_path / "images")
    (tmp_path / "few" / "classes.txt").unlink()
    status, out, err = run(capsys, "data", "check", folders / "voc", "--test", tmp_path / "few")
    assert status == 0, err
    assert ": cat, with 1 training annotations" in out


def test_a_file_of_coco_categories_is_compared_with_what_is_published(tmp_path, capsys):
    names = ["person", *map(str, range(78)), "toothbrush"]
    content = coco(categories=[{"id": index + 1, "name": name} for index, name in enumerate(names)])
    _, out, _ = run(capsys, "data", "check", write_json(tmp_path / "a.json", content))
    assert "not COCO 2017 val as published: 2 images instead of 5,000, 3 annotations instead of 36,781" in out


def test_openimages_is_compared_with_what_is_published(tmp_path, capsys):
    mids = [f"/m/{index}" for index in range(500)]
    (tmp_path / "challenge-2019-classes-description-500.csv").write_text("".join(f"{mid},name\n" for mid in mids))
    tree = {"LabelName": "/m/root", "Subcategory": [{"LabelName": mid} for mid in mids]}
    (tmp_path / "challenge-2019-label500-hierarchy.json").write_text(json.dumps(tree))
    boxes = tmp_path / "challenge-2019-train-detection-bbox.csv"
    boxes.write_text("ImageID,LabelName,XMin,XMax,YMin,YMax\na,/m/2,0,0.5,0,1\n")
    status, out, err = run(capsys, "data", "check", tmp_path)
    assert status == 0, err
    assert out.startswith(
        "not OpenImages Challenge 2019 train as published: 1 images instead of 1,743,042, 1 annotations"
    )
    status, out, err = run(capsys, "data", "counts", tmp_path, "--split", "train")
    assert status == 0, err
    assert out.startswith(f"{tmp_path} (train): 1 boxes, 500 categories, 499 without boxes")
    status, _, err = run(capsys, "data", "counts", tmp_path, "--split", "test")
    assert (status, f"--split test: {tmp_path} has train" in err) == (2, True)
    boxes.write_text("ImageID,LabelName,XMin,XMax,YMin,YMax\na,/m/2,0.7,0.5,0,1\n")
    status, _, err = run(capsys, "data", "check", tmp_path)
    assert (status, "XMin" in err) == (1, True)


def test_a_fault_of_a_folder_is_named_with_its_image(folders, capsys):
    file = folders / "yolo" / "labels" / "1.txt"
    file.write_text(f"0 0.5 0.5 0.2 0.2\n{file.read_text().splitlines()[0]}\n" * 2)
    _, out, _ = run(capsys, "data", "check", folders / "yolo", "--test", folders / "yolo", "--paths-only")
    repeated = [line for line in out.splitlines() if "annotations that repeat another" in line]
    assert len(repeated) == 2
    assert all("the first is an object of images/1.png: box" in line for line in repeated)


@pytest.mark.parametrize(("layout", "name"), [("yolo", "YOLO"), ("voc", "VOC")])
@pytest.mark.parametrize("command", ["check", "counts", "stats"])
def test_a_folder_in_an_archive_is_to_be_unpacked(folders, capsys, layout, name, command):
    archive = zip_folder(folders / layout, folders / "data.zip")
    status, _, err = run(capsys, "data", command, archive)
    assert status == 1
    assert err == f"equigrad: {archive}: has a {name} folder, which is read only unpacked: unpack it and name it\n"
