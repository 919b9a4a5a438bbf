import numpy as np
import pytest

from analysis.run_folders import PATH, STEPS, evaluation, recipe, statistics, write_run
from equigrad.analysis.evaluation_file import CategoryResult
from equigrad.analysis.history import RunHistory


def test_a_run_is_read_with_everything_it_left(tmp_path):
    run = RunHistory.load(write_run(tmp_path / "bce"))
    assert (run.name, run.recipe["seed"], run.metrics[-1]["loss"]) == ("bce", 7, 1.0)
    assert run.commands == [["equigrad", "train", "toy:bce", "--set", "name=two words"]]
    assert run.statistics[PATH].steps.tolist() == list(STEPS)
    np.testing.assert_allclose(run.statistics[PATH].positive[-1], [100, 90, 60, 40, 10, 1])
    assert run.evaluation.result["APr"] == 0.01
    assert run.evaluation.categories[0] == CategoryResult("person", 900, {"AP": 0.6}, "frequent")


def test_a_resumed_run_names_all_its_commands(tmp_path):
    starts = [{"command": ["train", "x"]}, {"command": ["train", "x", "--resume"]}]
    run = RunHistory.load(write_run(tmp_path / "run", recipe=recipe(starts=starts)))
    assert run.commands == [["train", "x"], ["train", "x", "--resume"]]


def test_checks_on_a_part_of_the_test_set_are_their_first_metric_and_what_is_no_fraction_is_left_out(tmp_path):
    wrong = ([], {}, 3, {"AP": "high"}, {"AP": None}, {"AP": 10**400})
    metrics = [{"step": step, "check": check} for step, check in enumerate(wrong)]
    metrics += [{"step": 50, "check": {"AP": 0.25, "APr": 0.1}}, {"step": 100, "check": {"AP": 1}}]
    run = RunHistory.load(write_run(tmp_path / "run", metrics=metrics))
    assert run.checks == [(50, "AP", 0.25), (100, "AP", 1.0)]


def test_statistics_and_evaluation_may_be_absent(tmp_path):
    run = RunHistory.load(write_run(tmp_path / "run", statistics=None, evaluation=None))
    assert (run.statistics, run.evaluation) == ({}, None)


def test_the_half_line_of_a_killed_run_is_left_out(tmp_path):
    folder = write_run(tmp_path / "run")
    with (folder / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 1')
    assert [line["step"] for line in RunHistory.load(folder).metrics] == [50, 100]


def test_several_statistics_are_kept_by_their_path(tmp_path):
    arrays = statistics([1, 0.5])
    both = {"steps": arrays["steps"]}
    for stage in ("heads.0", "heads.1"):
        both |= {f"{stage}.{sign}": arrays[f"{PATH}.{sign}"] for sign in ("positive", "negative")}
    run = RunHistory.load(write_run(tmp_path / "run", statistics=both, evaluation=None))
    assert list(run.statistics) == ["heads.0", "heads.1"]


def without(field):
    return {name: array for name, array in statistics([1.0] * 6).items() if name != field}


def changed_category(**fields):
    content = evaluation([0.5] * 6)
    content["categories"][2] |= fields
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"recipe": None}, r"recipe\.json: no such file"),
        ({"recipe": [1]}, r"recipe\.json: must hold one object, got list"),
        ({"recipe": recipe(starts=3)}, r"recipe\.json: starts must be a list"),
        ({"recipe": recipe(command="train")}, r"recipe\.json: command must be a list of words, got str"),
        ({"recipe": recipe(settings=[])}, r"recipe\.json: settings must be an object, got list"),
        ({"metrics": None}, r"metrics\.jsonl: no such file"),
        ({"metrics": [{"step": 1}, {"loss": 1}]}, r"metrics\.jsonl: line 2 must be an object with a step"),
        ({"statistics": without("steps")}, r"statistics\.npz: steps must be"),
        ({"statistics": statistics([1.0] * 6, steps=(50, 0, 100))}, r"statistics\.npz: steps must ascend"),
        ({"statistics": without(f"{PATH}.negative")}, rf"statistics\.npz: {PATH}\.negative is missing"),
        (
            {"statistics": {**statistics([1.0] * 6), f"{PATH}.negative": np.ones((2, 6))}},
            r"negative must be \(3, C\), got \(2, 6\)",
        ),
        (
            {"statistics": {**statistics([1.0] * 6), f"{PATH}.negative": np.full((3, 6), np.nan)}},
            r"negative must be finite",
        ),
        ({"statistics": statistics([1.0] * 5)}, r"evaluation\.json: categories must be the 5 of .*, got 6"),
        ({"evaluation": {"categories": []}}, r"evaluation\.json: result must be an object of metrics, got nothing"),
        ({"evaluation": {"result": {}}}, r"evaluation\.json: result must have at least one metric"),
        ({"evaluation": {"result": {"AP": 25.5}}}, r"result\.AP must be a fraction in \[0, 1\] or null, got 25\.5"),
        ({"evaluation": {"result": {"AP": True}}}, r"result\.AP must be a fraction"),
        ({"evaluation": {"result": {"AP": 0.1}, "categories": {}}}, r"categories must be a list, got dict"),
        ({"evaluation": changed_category(name=3)}, r"categories\[2\]\.name must be text, got int"),
        (
            {"evaluation": changed_category(num_test="2")},
            r"categories\[2\]\.num_test must be a whole number from 0, got '2'",
        ),
        ({"evaluation": changed_category(count=-1)}, r"categories\[2\]\.count must be a whole number from 0, got -1"),
        ({"evaluation": changed_category(group=1)}, r"categories\[2\]\.group must be text, got int"),
        ({"evaluation": changed_category(group=None)}, r"categories\[2\]\.group is missing, though"),
        ({"evaluation": changed_category(AP=1.5)}, r"categories\[2\]\.AP must be a fraction"),
    ],
)
def test_a_broken_file_is_refused_in_one_line_that_names_file_and_field(tmp_path, content, message):
    folder = write_run(tmp_path / "run", **content)
    with pytest.raises(ValueError, match=message) as error:
        RunHistory.load(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("name", ["recipe.json", "metrics.jsonl", "statistics.npz", "evaluation.json"])
@pytest.mark.parametrize("content", [b"", b"{\n", b"\xff\xfe\x00garbage\n", b"PK\x03\x04 cut\n", b"[" * 100_000])
def test_garbage_is_never_more_than_one_line(tmp_path, name, content):
    folder = write_run(tmp_path / "run")
    (folder / name).write_bytes(content)
    if name == "metrics.jsonl" and not content.endswith(b"\n"):
        assert RunHistory.load(folder).metrics == ()
        return
    with pytest.raises(ValueError, match=name) as error:
        RunHistory.load(folder)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nowhere: no such run"):
        RunHistory.load(tmp_path / "nowhere")
