import pytest

from analysis.doctor.classifier_runs import (
    RATIO,
    SIGMOID_EQL,
    classifier,
    evaluation_without,
    moving,
    recognition,
    write_classifier,
)
from analysis.run_folders import PATH
from equigrad.analysis.doctor.run import run_findings, tail_of_run
from equigrad.analysis.history import RunHistory
from equigrad.engine.run_lock import run_lock

NULL_LOSS = [{"step": 50, "loss": 2.0}, {"step": 100, "loss": None}]


def names(folder):
    return {finding.name for finding in run_findings(RunHistory.load(folder))}


def still():
    columns = moving()
    for sign in ("positive", "negative"):
        columns[f"{PATH}.{sign}"][2] = columns[f"{PATH}.{sign}"][1]
        columns[f"{PATH}.{sign}"] = columns[f"{PATH}.{sign}"][[0, 1, 2, 2]]
    return {**columns, "steps": [0, 50, 75, 100]}


def polluted():
    columns = moving()
    columns[f"{PATH}.positive"] = columns[f"{PATH}.positive"] * 30
    return columns


FAULTS = {
    "unfinished": {"step": 60},
    "loss_not_finite": {"metrics": NULL_LOSS},
    "bias_prior_missing": {"settings": classifier(SIGMOID_EQL, "Sigmoid")},
    "scores_mismatch": {"settings": classifier(SIGMOID_EQL, "Softmax", bias_prior=0.001)},
    "compensated_twice": {"settings": classifier(sampler="class_balanced")},
    "tail_starving": {"won": (1, 0.95, 0.9, 0.6, 0.1, 0.0)},
    "statistics_still": {"statistics": still()},
    "statistics_polluted": {"statistics": polluted()},
    "ratio_stuck": {"statistics": {**moving([0.01] * 6), **recognition([0.9] * 6)}},
    "never_seen": {"statistics": {**moving([1, 1, 1, 1, 0.9, 0]), **recognition([0.9] * 6)}},
    "not_tested": {"evaluation": evaluation_without(absent=(4, 5))},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_is_named_and_nothing_else(fault, tmp_path):
    assert names(write_classifier(tmp_path / "run", **FAULTS[fault])) == {fault}


HEALTHY = {
    "softmax": {},
    "sigmoid": {"settings": classifier(SIGMOID_EQL, "Sigmoid", bias_prior=0.001)},
    "plain_with_sampler": {"settings": classifier({"type": "CrossEntropy"}, sampler="class_balanced")},
    "earlier_version": {"statistics": moving(RATIO)},
}


@pytest.mark.parametrize("run", HEALTHY)
def test_is_quiet_on_a_healthy_run(run, tmp_path):
    assert names(write_classifier(tmp_path / "run", **HEALTHY[run])) == set()


def test_more_samples_than_the_batches_have_are_a_validation(tmp_path):
    run = write_classifier(tmp_path / "run", statistics={**moving(), **recognition([0.9] * 6, samples=2100)})
    (finding,) = run_findings(RunHistory.load(run))
    assert finding.name == "statistics_polluted"
    assert finding.evidence == "2,100 samples in 100 steps of 20"


def test_images_with_many_labels_may_have_more_positives_than_images(tmp_path):
    settings = {**classifier(SIGMOID_EQL, "Sigmoid", bias_prior=0.001), "data": {"type": "ManyLabels"}}
    statistics = {**moving(), **recognition([0.9] * 6, samples=2100)}
    assert names(write_classifier(tmp_path / "run", settings, statistics=statistics)) == set()


def test_a_head_that_loses_its_samples_too_is_no_starving_tail(tmp_path):
    assert names(write_classifier(tmp_path / "run", won=[0.1] * 6)) == set()


def test_an_unfinished_run_is_mended_by_the_command_that_goes_on(tmp_path):
    run = write_classifier(tmp_path / "run", step=60)
    (finding,) = run_findings(RunHistory.load(run))
    assert finding.evidence == "step 60 of 100"
    assert finding.remedy == f"equigrad train own_data:classification --run {run} --resume"


def test_a_run_that_is_being_trained_is_said_to_be_so(tmp_path):
    run = write_classifier(tmp_path / "run", step=60, evaluation=None)
    with run_lock(run, ["equigrad", "train"]):
        (finding,) = run_findings(RunHistory.load(run))
    assert (finding.name, finding.severity) == ("still_training", "note")
    assert finding.evidence == "its last checkpoint is of step 60 of 100"
    assert finding.remedy == f"wait for its end, then: equigrad doctor {run} again"
    assert names(run) == {"unfinished"}


def test_a_remedy_is_the_command_of_the_run_with_one_change(tmp_path):
    run = write_classifier(
        tmp_path / "run",
        **FAULTS["compensated_twice"],
        assignments=["method.sampler=class_balanced", "name=two words", "method=ce"],
    )
    (finding,) = run_findings(RunHistory.load(run))
    assert finding.remedy.endswith(
        f": equigrad train own_data:classification --set method.sampler=random --set 'name=two words' --set method=ce "
        f"--run {run}_again"
    )


def test_a_starving_tail_is_sent_to_the_equalized_loss(tmp_path):
    settings = classifier(
        {**SIGMOID_EQL, "reweight_positive": False, "reweight_negative": False}, "Sigmoid", bias_prior=0.01
    )
    run = write_classifier(tmp_path / "run", settings, won=(1, 1, 1, 1, 0, 0))
    (finding,) = run_findings(RunHistory.load(run))
    assert finding.remedy == (
        f"equigrad report {run} names the categories; train with sigmoid_eql: "
        f"equigrad train own_data:classification --set method=sigmoid_eql --run {run}_again"
    )
    assert finding.evidence.startswith(
        "2 of the 2 rarest categories have a share of own training samples won below 0.5"
    )


def test_a_tail_that_starves_with_an_equalization_loss_is_trained_longer(tmp_path):
    settings = classifier()
    settings["training"]["schedule"] = {"epochs": 5}
    run = write_classifier(tmp_path / "run", settings, won=(1, 1, 1, 1, 0, 0))
    (finding,) = run_findings(RunHistory.load(run))
    assert "--set training.schedule.epochs=10 --run" in finding.remedy


def test_a_category_that_may_still_come_is_not_called_never_seen(tmp_path):
    early = {**moving([1, 1, 1, 1, 0.9, 0]), **recognition([0.9] * 6, samples=800), "steps": [0, 20, 40]}
    run = write_classifier(tmp_path / "run", step=40, statistics=early)
    assert "never_seen" not in names(run)


def test_a_run_that_stopped_at_a_broken_loss_is_not_sent_on(tmp_path):
    assert names(write_classifier(tmp_path / "run", step=60, metrics=NULL_LOSS)) == {"loss_not_finite"}


def test_the_tail_is_that_of_the_evaluated_categories(tmp_path):
    run = RunHistory.load(write_classifier(tmp_path / "run", evaluation=evaluation_without(absent=(5,))))
    tail = tail_of_run(run)
    assert tail.imbalance == 450
    assert tail.tested_few == 1 / 5
    assert tail_of_run(RunHistory.load(write_classifier(tmp_path / "new", evaluation=None))) is None


def test_pixels_of_a_segmentation_run_are_not_taken_for_images(tmp_path):
    settings = {**classifier(), "type": "SegmentationRecipe"}
    assert tail_of_run(RunHistory.load(write_classifier(tmp_path / "run", settings))) is None
