"""`equigrad doctor`; what it finds is in `tests/analysis/doctor` and `tests/tasks/test_diagnosis.py`."""

import json
import shlex

import pytest

from commands.running_commands import SHORT_RUN, equigrad


def test_doctor_prints_about_ten_lines_and_writes_json(photos, tmp_path):
    done = equigrad("doctor", photos, "--json", tmp_path / "new" / "doctor.json")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) <= 12
    assert "imbalance factor 4" in done.out
    assert "losses are computed by:" in done.out
    content = json.loads((tmp_path / "new" / "doctor.json").read_text())
    assert (content["kind"], content["findings"]) == ("data", [])
    assert 0 < content["gain"]["low"] < content["gain"]["points"] < 1


def test_doctor_reads_a_real_run_and_its_checkpoint(run):
    done = equigrad("doctor", run)
    assert done.code == 0, done.err
    assert "run, classification, trained with SoftmaxEql" in done.out
    assert "the run was trained with precision 32" in done.out
    assert "error:" not in done.out
    done = equigrad("doctor", next((run / "checkpoints").glob("step_*.pt")))
    assert done.code == 0, done.err
    assert "nothing looks wrong" in done.out


def test_a_wrong_path_or_task_is_one_line(photos):
    assert equigrad("doctor", photos / "nothing").err.count("\n") == 1
    done = equigrad("doctor", photos, "--task", "detektion")
    assert (done.code, "detection" in done.err) == (2, True)


STANDSTILL = (
    *("data.num_classes=40", "data.max_count=10", "data.imbalance_factor=5", "data.test_count=1"),
    *("training.batch_size=32", "training.optimizer.lr=1e-9", "training.log_every=1"),
    *("training.schedule.epochs=2", "training.schedule.warmup.length=1", "method.bias_prior=0.3"),
)
FAULTY_RUNS = {
    "bias_prior_missing": ("tiny:sigmoid_eql", *SHORT_RUN, "method.bias_prior=none"),
    "scores_mismatch": ("tiny:softmax_eql", *SHORT_RUN, "method.scores=Sigmoid"),
    "compensated_twice": ("tiny:softmax_eql", *SHORT_RUN, "method.sampler=class_balanced"),
    "ratio_stuck": ("tiny:bce", *STANDSTILL),
    "loss_not_finite": ("tiny:softmax_eql", *SHORT_RUN, "training.optimizer.lr=1e30"),
}


def findings(subject, folder):
    """What the doctor names in JSON, by name."""
    done = equigrad("doctor", subject, "--json", folder / "doctor.json")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) <= 12
    return {finding["name"]: finding for finding in json.loads((folder / "doctor.json").read_text())["findings"]}


@pytest.mark.parametrize("fault", FAULTY_RUNS)
def test_the_fault_of_a_real_run_is_named_alone_and_its_command_trains_without_it(fault, tmp_path):
    recipe, *settings = FAULTY_RUNS[fault]
    done = equigrad("train", recipe, "--run", tmp_path / "run", settings=settings)
    assert done.code == (fault == "loss_not_finite"), done.err
    found = findings(tmp_path / "run", tmp_path)
    assert list(found) == [fault]
    if fault == "loss_not_finite":
        return  # a tenth of 1e30 is no remedy
    _, _, command = found[fault]["remedy"].partition("equigrad ")
    assert equigrad(*shlex.split(command)).code == 0
    assert findings(tmp_path / "run_again", tmp_path) == {}


def test_a_checkpoint_of_a_run_shows_the_faults_of_its_settings_and_the_low_ratio(tmp_path):
    recipe, *settings = FAULTY_RUNS["ratio_stuck"]
    equigrad("train", recipe, "--run", tmp_path / "run", settings=[*settings, "method.scores=Softmax"])
    *_, last = sorted((tmp_path / "run" / "checkpoints").glob("step_*.pt"))
    found = findings(last, tmp_path)
    assert list(found) == ["scores_mismatch", "ratio_low"]
    assert found["scores_mismatch"]["remedy"].endswith(f"--set method.scores=Sigmoid --run {tmp_path}/run_again")


def test_a_run_without_test_images_of_a_rare_category_is_tested_on_a_held_out_part(photos, tmp_path):
    for image in (photos / "test" / "eel").iterdir():
        image.unlink()
    files = (f"data.train={photos / 'train'}", f"data.test={photos / 'test'}")
    words = ("--image-size", 32, "--epochs", 1, "--run", tmp_path / "run")
    done = equigrad("train", "own_data:classification", *words, settings=files)
    assert done.code == 0, done.err
    found = findings(tmp_path / "run", tmp_path)
    _, _, command = found["not_tested"]["remedy"].partition("equigrad ")
    done = equigrad(*shlex.split(command))
    assert done.code == 0, done.err
    assert "not_tested" not in findings(tmp_path / "run_again", tmp_path)
