import argparse
from pathlib import Path

import pytest

from equigrad.commands.data_source import (
    DEFAULT_FILES,
    add_source_options,
    check_own_files,
    checked_task,
    named_files,
)
from equigrad.recipes.catalogue import load_recipe
from images_on_disk import write_images, zip_folder


def test_options_become_the_files_of_the_user():
    parser = argparse.ArgumentParser()
    add_source_options(parser)
    named = named_files(parser.parse_args(["--test", "held", "--names", "classes.txt"]))
    assert (named.test, named.root, named.images, named.names) == (Path("held"), None, None, Path("classes.txt"))


def test_an_unknown_task_is_answered_with_the_nearest():
    assert checked_task(None) is None
    assert checked_task("detection") == "detection"
    with pytest.raises(ValueError, match=r"--task detektion: expected one of .*detection"):
        checked_task("detektion")


@pytest.mark.parametrize("name", DEFAULT_FILES)
def test_the_defaults_are_those_of_the_recipe(name):
    data = load_recipe(f"own_data:{name}").recipe.data
    for setting, text in DEFAULT_FILES[name].items():
        assert getattr(data, setting.removeprefix("data.")) == Path(text)


@pytest.mark.parametrize("name", DEFAULT_FILES)
def test_data_that_is_missing_is_named_with_its_setting(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = "no such file or folder; name yours with --set"
    first, default = next(iter(DEFAULT_FILES[name].items()))
    with pytest.raises(FileNotFoundError, match=f"{default}: {message} {first}=…"):
        check_own_files(f"own_data:{name}", ["training.seed=1"])
    for setting in DEFAULT_FILES[name]:
        with pytest.raises(FileNotFoundError, match=f"gone: {message} {setting}=…"):
            check_own_files(f"own_data:{name}", [f"{setting}=gone"])


def test_a_held_out_part_and_a_folder_of_an_archive_need_no_file(tmp_path):
    write_images(tmp_path / "all" / "train", {"cat": 1, "dog": 1})
    archive = zip_folder(tmp_path / "all", tmp_path / "all.zip")
    check_own_files("own_data:classification", [f"data.train={archive}/train", "data.test=none"])


def test_a_source_of_another_kind_looks_for_its_own_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_own_files("own_data:detection", ["data=GlyphObjects"])


def test_folders_of_label_maps_start_from_the_root(tmp_path):
    for name in ("images", "labels"):
        (tmp_path / "scenes" / name).mkdir(parents=True)
    names = tmp_path / "names.txt"
    names.write_text("road\n")
    given = [f"data.root={tmp_path / 'scenes'}", f"data.names={names}"]
    check_own_files("own_data:semantic_segmentation", given)
    with pytest.raises(FileNotFoundError, match="scenes/test: no such file or folder"):
        check_own_files("own_data:semantic_segmentation", [*given, "data.test_images=test"])


def test_other_recipes_are_left_to_themselves():
    check_own_files("mine:recipe", ["data.train=gone"])
    check_own_files("one_stage:lvis_atss_r50", ["data.train=gone"])


def test_settings_of_yolo_are_refused_as_data_but_not_as_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("images", "labels"):
        Path(folder).mkdir()
    Path("data.yaml").write_text("names: [cat]\n")
    maps = ["data.images=images", "data.labels=labels"]
    check_own_files("own_data:semantic_segmentation", [*maps, "data.names=data.yaml"])
    with pytest.raises(ValueError, match=r"^data\.yaml: settings of a YOLO folder"):
        check_own_files("own_data:detection", ["data.train=data.yaml"])
