import math

import numpy as np
import pytest

from equigrad.analysis import Evaluation
from equigrad.evaluation.detection.result import DetectionResult, category_facts
from equigrad.evaluation.detection.rules import COCO, LVIS
from equigrad.evaluation.tables import write_table
from evaluation.detection_files import annotations_of, federated

BOX = [0, 0, 9, 9]


@pytest.fixture
def content():
    """Three categories: r in two images (three objects), c in one, f in none."""
    return federated({1: ([], []), 2: ([], [])}, [(1, 1, BOX), (1, 1, BOX), (2, 1, BOX), (2, 2, BOX)])


def result_of(facts, rules=LVIS):
    precision = np.full((3, 4, 10), np.nan)
    precision[0, 0], precision[1, 0] = 0.5, np.linspace(0.9, 0, 10)
    limited = np.zeros((3, len(rules.recall_limits), 10))
    return DetectionResult(rules, facts, precision, precision / 2, limited, precision[:, 0] / 4, np.full(10, 0.1))


def test_metrics_have_the_names_of_the_papers(tmp_path, content):
    result = result_of(category_facts(annotations_of(tmp_path, content))).result()
    assert list(result)[:9] == ["AP", "AP50", "AP75", "APs", "APm", "APl", "APr", "APc", "APf"]
    assert list(result)[9:] == [
        *("AR@300", "ARs@300", "ARm@300", "ARl@300", "AP-fixed", "APr-fixed", "APc-fixed", "APf-fixed", "AP-pool")
    ]
    assert result["AP"] == pytest.approx(0.475)
    assert result["AP50"] == pytest.approx(0.7)
    assert result["AP75"] == pytest.approx((0.5 + 0.4) / 2)
    assert (result["APr"], result["APc"]) == pytest.approx((0.5, 0.45))
    assert math.isnan(result["APf"])
    assert math.isnan(result["APs"])
    assert result["APr-fixed"] == pytest.approx(0.125)


def test_rows_fit_tables_and_reports(tmp_path, content):
    result = result_of(category_facts(annotations_of(tmp_path, content)))
    rows = result.per_category()
    text = write_table(rows, tmp_path / "rows.csv").read_text().splitlines()
    assert text[:2] == ["name,count,group,num_images,num_instances,AP,AP50", "thing 1,2,rare,2,3,0.5,0.5"]
    assert text[3] == "thing 3,0,frequent,0,0,,"
    evaluation = Evaluation.from_rows(result.result(), rows)
    evaluation.save(tmp_path)
    read = Evaluation.load(tmp_path)
    assert read.categories[0].metrics == {"AP": 0.5, "AP50": 0.5}
    assert read.categories[2].metrics["AP"] is None


def test_without_letters_groups_come_from_training_counts_or_from_the_file(tmp_path, content):
    for category in content["categories"]:
        del category["frequency"]
    annotations = annotations_of(tmp_path, content)
    facts = category_facts(annotations, [5, 11, 101])
    rows = result_of(facts).per_category()
    assert [(row.group, row.count) for row in rows] == [("rare", 5), ("common", 11), ("frequent", 101)]
    assert "APr" in result_of(facts).result()
    facts = category_facts(annotations)
    assert [row.count for row in result_of(facts).per_category()] == [2, 1, 0]
    assert "APr" not in result_of(facts).result()  # the frequencies of a test set are not those of training
    with pytest.raises(ValueError, match=r"train_counts must be \(3,\), got \(2,\)"):
        category_facts(annotations, [1, 2])


def test_coco_has_recall_at_three_limits(tmp_path, content):
    result = result_of(category_facts(annotations_of(tmp_path, content)), COCO).result()
    assert [name for name in result if name.startswith("AR")] == [
        *("AR@1", "AR@10", "AR@100", "ARs@100", "ARm@100", "ARl@100")
    ]
