import numpy as np
import pytest

from equigrad.analysis.doctor.diagnosis import Diagnosis
from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.doctor.tail import Tail

COUNTS = np.array([300, 30, 3])
TAIL = Tail(COUNTS, COUNTS, np.ones(3, int))


def finding(number):
    return Finding("warning", f"fault_{number}", f"fault {number}", "seen", "mend it")


def test_healthy_data_is_six_lines():
    lines = Diagnosis("photos", "data", "classification", TAIL).text("blocks").splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "photos",
        "tail",
        "outlook",
        "outlook",
        "nothing looks wrong",
        "machine",
    ]


def test_many_findings_stay_about_ten_lines():
    text = Diagnosis("run", "run", None, None, [finding(number) for number in range(20)]).text("blocks")
    assert len(text.splitlines()) == 10
    assert "and 13 more; --json FILE has all" in text


def test_json_has_every_finding_and_the_answer():
    found = [finding(number) for number in range(20)]
    content = Diagnosis("photos", "data", "classification", TAIL, found, precision="bf16").to_json("blocks")
    assert len(content["findings"]) == 20
    assert content["gain"]["points"] == pytest.approx(1.6 * 2 * (1 / 3) ** 0.5)
    assert content["tail"]["imbalance_factor"] == 100
    assert content["precision"] == "bf16"


def test_without_a_task_there_is_no_advice():
    diagnosis = Diagnosis("run", "run", None, TAIL)
    assert diagnosis.advice == []
    assert diagnosis.to_json("blocks")["gain"] is None
