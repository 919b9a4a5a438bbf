"""`equigrad doctor`; what it finds is in `tests/analysis/doctor` and `tests/tasks/test_diagnosis.py`."""

import json

from commands.running_commands import equigrad


def test_doctor_prints_about_ten_lines_and_writes_json(photos, tmp_path):
    done = equigrad("doctor", photos, "--json", tmp_path / "new" / "doctor.json")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) <= 12
    assert "imbalance factor 4" in done.out
    assert "losses are computed by:" in done.out
    content = json.loads((tmp_path / "new" / "doctor.json").read_text())
    assert (content["kind"], content["gain"], content["findings"]) == ("data", "unlikely", [])


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
    assert (done.code, "detection" in done.err) == (1, True)
