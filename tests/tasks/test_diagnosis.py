"""Faulty and healthy data and checkpoints, as files; faulty runs are in `analysis/doctor/test_run.py`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.outlook import read_cases

import equigrad
from analysis.run_folders import write_run
from equigrad.analysis.doctor.tail import Tail
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.tasks.comparison.sources import NamedFiles
from equigrad.tasks.diagnosis import diagnose
from images_on_disk import write_images, write_list
from segmentation_on_disk import write_set
from shared_data import shared_folder
from small_detection_data import TRAIN, annotated, write_small_data

NOTHING = NamedFiles()
MAPS = np.kron([[0, 1], [1, 2]], np.ones((4, 4), dtype=np.uint8))


def names(diagnosis):
    return [finding.name for finding in diagnosis.findings]


def listed(folder, labels, num_named):
    """A list of one image for each label, and the names of so many categories."""
    paths = write_images(folder, {"all": len(labels)})["all"]
    (folder / "train.txt").write_text("".join(f"{path} {label}\n" for path, label in zip(paths, labels, strict=True)))
    rows = "".join(f"{label},name{label}\n" for label in range(num_named))
    (folder / "classes.csv").write_text(f"label,name\n{rows}")
    return folder / "train.txt"


def saved(file, change=lambda state: None):
    """The `state_dict` of a user's loss after some batches, changed."""
    torch.manual_seed(0)
    loss = equigrad.SoftmaxEqualizationLoss(4)
    for _ in range(3):
        loss(torch.randn(16, 4, requires_grad=True), torch.arange(16) % 4)
    state = {f"criterion.{name}": value for name, value in loss.state_dict().items()}
    change(state)
    torch.save({"model": state, "epoch": 3}, file)
    return file


def test_folders_with_a_measured_tail_are_healthy(tmp_path):
    write_images(tmp_path / "train", {"cat": 30, "dog": 6, "eel": 2})
    write_images(tmp_path / "test", {"cat": 2, "dog": 2, "eel": 2}, seed=1)
    diagnosis = diagnose(tmp_path, NOTHING)
    assert (diagnosis.kind, diagnosis.task, names(diagnosis)) == ("data", "classification", [])
    assert diagnosis.tail.imbalance == 15
    assert f"equigrad compare {tmp_path} --methods" in diagnosis.advice[-1]


def test_a_list_without_a_test_set_is_healthy(tmp_path):
    paths = write_images(tmp_path, {"cat": 8, "dog": 5, "eel": 2})
    diagnosis = diagnose(write_list(tmp_path / "train.txt", paths), NamedFiles(root=tmp_path))
    assert names(diagnosis) == []
    assert f"--root {tmp_path}" in diagnosis.data


def test_labels_out_of_range_are_named(tmp_path):
    diagnosis = diagnose(listed(tmp_path, [0, 0, 1, 1, 5], num_named=2), NOTHING)
    assert names(diagnosis) == ["labels_out_of_range"]
    assert "label 5 of all/4.png, expected 0..1" in diagnosis.findings[0].evidence


def test_categories_never_seen_are_named(tmp_path):
    assert names(diagnose(listed(tmp_path, [0, 0, 1, 1], num_named=3), NOTHING)) == ["never_seen"]


def test_a_single_category_is_named_once(tmp_path):
    write_images(tmp_path, {"cat": 4})
    assert names(diagnose(tmp_path, NOTHING)) == ["single_category"]


def test_a_test_set_without_rare_categories_is_named(tmp_path):
    write_images(tmp_path / "train", {"cat": 30, "dog": 25, "eel": 3})
    write_images(tmp_path / "test", {"cat": 2, "dog": 2}, seed=1)
    diagnosis = diagnose(tmp_path, NOTHING)
    assert names(diagnosis) == ["not_tested"]
    command = f"equigrad train own_data:classification --set data.train={tmp_path}/train --set data.test=none"
    assert command in diagnosis.findings[0].remedy


def test_objects_are_counted_without_their_images(tmp_path):
    (write_small_data(tmp_path) / "images").rename(tmp_path / "elsewhere")
    diagnosis = diagnose(tmp_path / "train.json", NOTHING)
    assert (diagnosis.task, names(diagnosis)) == ("instance_segmentation", [])
    assert diagnosis.tail.amounts.tolist() == [7, 3, 1, 1]


def test_a_rare_object_that_no_test_image_has_is_named(tmp_path):
    write_small_data(tmp_path)
    diagnosis = diagnose(tmp_path / "train.json", NamedFiles(test=tmp_path / "test.json"), "detection")
    assert (diagnosis.task, names(diagnosis)) == ("detection", ["not_tested"])


def test_objects_of_an_unknown_category_are_named(tmp_path):
    content = annotated(TRAIN)
    content["annotations"][0]["category_id"] = 77
    (tmp_path / "train.json").write_text(json.dumps(content))
    diagnosis = diagnose(tmp_path / "train.json", NOTHING)
    assert "labels_out_of_range" in names(diagnosis)
    assert diagnosis.tail is None


def test_label_maps_are_healthy_and_counted_in_pixels_and_images(tmp_path):
    diagnosis = diagnose(write_set(tmp_path, {"a": MAPS, "b": MAPS}), NOTHING)
    assert (diagnosis.task, names(diagnosis)) == ("semantic_segmentation", [])
    assert diagnosis.tail.amounts.tolist() == [32, 64, 32]
    assert diagnosis.tail.images.tolist() == [2, 2, 2]


def test_label_maps_with_an_unknown_value_are_named(tmp_path):
    diagnosis = diagnose(write_set(tmp_path, {"a": MAPS, "b": MAPS + 7}), NOTHING)
    assert names(diagnosis) == ["labels_out_of_range"]
    assert "equigrad data check" in diagnosis.findings[0].remedy


@pytest.mark.shared_data
def test_the_measured_data_sets_have_the_numbers_of_the_rule():
    cases = read_cases(Path(__file__).parents[2] / "docs" / "evidence" / "outlook.csv")
    by_name = {(case.pool, case.training_set): case for case in cases}
    caltech = shared_folder("caltech101")
    files = NamedFiles(test=caltech / "test.txt", root=caltech / "images.zip")
    tails = {("Caltech-101", "200 to 2 images"): diagnose(caltech / "train_lt100.txt", files).tail}
    leaves = [read_coco(shared_folder("plantdoc") / f"instances_{name}.json") for name in ("train", "test")]
    train, test = (data.instance_counts for data in leaves)  # every leaf is cut out as an image of its own
    tails["leaves", "as it is"] = Tail(train, train, test)
    for name, tail in tails.items():
        assert (tail.imbalance, round(tail.tested_few, 3)) == (by_name[name].imbalance, by_name[name].few)


def test_the_statistics_of_a_users_loss_are_healthy(tmp_path):
    diagnosis = diagnose(saved(tmp_path / "model.pt"), NOTHING)
    assert (diagnosis.kind, names(diagnosis)) == ("checkpoint", [])


CHANGES = {
    "statistics_untouched": lambda state: [value.zero_() for value in state.values()],
    "statistics_not_finite": lambda state: state["criterion.statistics.negative"].fill_(torch.nan),
    "batches_skipped": lambda state: state["criterion.statistics.skipped"].add_(3),
    "never_seen": lambda state: state["criterion.statistics.positive"][1].zero_(),
    "statistics_rounded": lambda state: state.update(
        {name: value.half() for name, value in state.items() if value.dtype == torch.float64}
    ),
}


@pytest.mark.parametrize("fault", CHANGES)
def test_a_fault_of_saved_statistics_is_named(fault, tmp_path):
    assert names(diagnose(saved(tmp_path / "model.pt", CHANGES[fault]), NOTHING)) == [fault]


def test_tensors_that_cannot_be_sums_are_not_taken_for_statistics(tmp_path):
    torch.save({"positive": torch.ones(2, dtype=torch.complex64), "negative": torch.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="no gradient statistics in it"):
        diagnose(tmp_path / "a.pt", NOTHING)


def test_weights_without_statistics_are_refused_with_one_line(tmp_path):
    torch.save({"model": {"weight": torch.ones(2)}}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="no gradient statistics in it"):
        diagnose(tmp_path / "model.pt", NOTHING)


def test_a_file_that_would_run_code_is_refused(tmp_path):
    torch.save({"model": np.dtype}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="cannot load the checkpoint"):
        diagnose(tmp_path / "model.pt", NOTHING)


def test_a_folder_of_runs_is_answered_with_one_of_them(tmp_path):
    write_run(tmp_path / "runs" / "ce")
    with pytest.raises(ValueError, match=r"holds runs and no data; name one of them, such as .*runs/ce"):
        diagnose(tmp_path / "runs", NOTHING)


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such data, run or checkpoint"):
        diagnose(tmp_path / "nothing", NOTHING)
