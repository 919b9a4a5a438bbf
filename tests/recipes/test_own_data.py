"""A user's own annotation file and folder, through the command line."""

import pytest

from detection_on_disk import annotation, coco, image, write_json, write_pictures
from equigrad.cli import main
from equigrad.tasks.detection.detectors import RCNN, ImprovedAtss
from equigrad.tasks.losses import Efl, SigmoidEql, WithObjectness
from images_on_disk import write_images
from running import load

SMALL = [
    *(
        "preprocessing.short=64",
        "preprocessing.test_short=64",
        "preprocessing.long=96",
        "training.schedule.epochs=1",
        "training.batch_size=2",
    ),
    *("training.num_workers=0", "training.log_every=1"),
]


def content(num_images=6, categories=None):
    images = [image(number, height=48, width=64) for number in range(1, num_images + 1)]
    annotations = [
        annotation(number, image_id=number, category_id=(1, 7)[number % 2], box=(4, 6, 30, 36), area=1080.0)
        for number in range(1, num_images + 1)
    ]
    return coco(images, annotations, categories)


@pytest.fixture
def files(tmp_path):
    """Annotations of six images, and the images."""
    write_pictures(tmp_path / "photos", content())
    write_json(tmp_path / "train.json", content())
    write_json(tmp_path / "val.json", content(3))
    return tmp_path


def train(folder, *settings, **data):
    paths = {"train": "train.json", "test": "val.json", "images": "photos", **data}
    given = [f"data.{field}={folder / path if path != 'none' else path}" for field, path in paths.items()]
    words = [word for setting in [*given, *SMALL, *settings] for word in ("--set", setting)]
    return main(["train", "own_data:detection", "--run", str(folder / "run"), *words])


def test_a_users_boxes_are_trained_on_with_one_command(files, capsys):
    assert train(files) == 0
    assert "APr" in capsys.readouterr().out.splitlines()[-2]
    assert {"categories.json", "evaluation.json", "report.html"} <= {file.name for file in (files / "run").iterdir()}
    assert main(["evaluate", str(files / "run"), "--json", str(files / "result.json")]) == 0
    assert main(["predict", str(files / "run"), str(files / "photos" / "1.png")]) == 0


def test_one_annotation_file_is_enough(files, capsys):
    assert train(files, "method=fl", test="none") == 0
    assert "5 images" in capsys.readouterr().out  # a fifth of the six is held out


@pytest.mark.parametrize(
    ("data", "settings", "line"),
    [
        ({"train": "tain.json"}, [], "tain.json: no such file or folder; name yours with --set data.train=…"),
        ({"images": "fotos"}, [], "fotos: no such file or folder; name yours with --set data.images=…"),
        ({"images": "empty"}, [], "1.png: no such image"),
        ({"test": "other.json"}, [], "categories must be those of"),
        ({"train": "broken.json"}, [], "broken.json"),
        ({}, ["backbone.weights=nowhere.pth"], "nowhere.pth: no such weight file"),
    ],
)
def test_a_mistake_gets_one_line_that_names_it(data, settings, line, files, capsys):
    (files / "empty").mkdir()
    write_json(files / "other.json", content(3, [{"id": 7, "name": "wolf"}, {"id": 1, "name": "cat"}]))
    write_json(files / "broken.json", '{"images": [], "annotations": 3')
    assert train(files, *settings, **data) == 1
    told = capsys.readouterr().err.strip()
    assert len(told.splitlines()) == 1
    assert told.startswith("equigrad: ")
    assert line in told


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("data.imges=photos", "no field 'imges' in data, which may have train, test, images"),
        ("method=elf", "--set method=elf: expected none or one of bce, fl, fl_eql, efl, qfl, eqfl"),
        ("preprocessing.short=big", "short=big: expected a whole number, or several separated by commas"),
    ],
)
def test_a_wrong_setting_is_wrong_usage(setting, line, files, capsys):
    assert train(files, setting) == 2
    assert line in capsys.readouterr().err


def test_the_defaults_are_two_stages_on_an_imagenet_backbone():
    recipe = load("own_data:detection")
    assert isinstance(recipe.detector, RCNN)
    assert recipe.method.loss == WithObjectness(SigmoidEql())
    assert recipe.backbone.weights == "package"
    assert recipe.backbone.imagenet_features
    assert load("own_data:instance_segmentation").backbone.imagenet_features


def test_a_method_of_one_stage_detectors_brings_such_a_detector():
    recipe = load("own_data:detection", ["method=efl"])
    assert isinstance(recipe.detector, ImprovedAtss)
    assert not recipe.backbone.imagenet_features
    assert recipe.method.loss == Efl()


@pytest.mark.parametrize("name", ["classification", "multi_label", "semantic_segmentation", "detection"])
def test_a_default_training_has_hundreds_of_steps_unless_epochs_are_given(name):
    assert load(f"own_data:{name}").training.schedule.total_steps(3) >= 300
    assert load(f"own_data:{name}", ["training.schedule.epochs=2"]).training.schedule.total_steps(3) == 6


@pytest.fixture
def many_labels(tmp_path):
    """Images with two, one or none of two categories."""
    write_images(tmp_path, {"a": 6}, size=16)
    rows = [f"a/{number}.png,{('cat;dog', 'dog', '')[number % 3]}\n" for number in range(6)]
    (tmp_path / "labels.csv").write_text("image,categories\n" + "".join(rows))
    return tmp_path


@pytest.mark.parametrize("frozen", ["none", "backbone"])
def test_images_with_several_categories_are_trained_on_and_predicted(many_labels, frozen, capsys, monkeypatch):
    monkeypatch.chdir(many_labels)
    words = ["--set", f"data.train={many_labels}", "--set", f"data.test={many_labels}", "--image-size", "32"]
    words += ["--epochs", "1", "--batch-size", "3", "--workers", "0", "--frozen", frozen, "--run", "run"]
    assert main(["train", "own_data:multi_label", *words]) == 0
    assert "mAP" in capsys.readouterr().out
    assert main(["evaluate", "run", "--csv", "categories.csv"]) == 0
    assert (many_labels / "categories.csv").read_text().startswith("name,count,group,num_test,AP,precision,recall")
    assert main(["predict", "run", "a", "--threshold", "0", "--csv", "found.csv"]) == 0
    found = (many_labels / "found.csv").read_text().splitlines()
    assert len(found) == 1 + 6 * 2  # all categories of each image


def test_a_softmax_loss_is_refused_for_images_with_several_categories():
    with pytest.raises(ValueError, match="images with several categories need a sigmoid loss, got SoftmaxEql"):
        load("own_data:multi_label", ["method.loss=SoftmaxEql"])


def test_several_categories_are_checked_and_counted_before_training(many_labels, capsys):
    assert main(["data", "check", str(many_labels / "labels.csv")]) == 0
    assert "6 images" in capsys.readouterr().out
    assert main(["data", "counts", str(many_labels)]) == 0
    assert "dog" in capsys.readouterr().out
    assert main(["data", "long-tail", str(many_labels), "--output", "x.txt"]) == 1
    assert "needs images with one category each" in capsys.readouterr().err
