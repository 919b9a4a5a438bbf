import json

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from equigrad.engine import SGD, EngineError, Schedule, TrainSettings
from equigrad.engine.run_log import RunLog, check_run_folder, was_restarted, write_recipe
from equigrad.run_files import read_recipe


@pytest.fixture
def settings():
    return TrainSettings(optimizer=SGD(0.1), schedule=Schedule(epochs=2), batch_size=4, seed=17)


def log_steps(folder, last_checkpoint, steps):
    log = RunLog(folder, last_checkpoint)
    for step in steps:
        log.write({"step": step, "loss": step / 10, "losses": {"classification": 1.0}})
    log.close()


def steps_in(folder):
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_log_has_every_step_once(tmp_path):
    log_steps(tmp_path, 0, [1, 2, 3, 4])
    log_steps(tmp_path, 2, [3, 4, 5])
    assert steps_in(tmp_path) == [1, 2, 3, 4, 5]


def test_half_a_line_left_by_a_kill_is_dropped(tmp_path):
    log_steps(tmp_path, 0, [1, 2])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')
    log_steps(tmp_path, 3, [4])
    assert steps_in(tmp_path) == [1, 2, 4]


def test_tensorboard_shows_the_same_numbers_without_those_after_the_checkpoint(tmp_path):
    log_steps(tmp_path, 0, [1, 2, 3])
    log_steps(tmp_path, 2, [4])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 4]
    assert events.Scalars("losses/classification")[0].value == 1.0


def test_numbers_that_are_not_finite_become_null_so_that_any_json_reader_can_read_them(tmp_path):
    log = RunLog(tmp_path, 0)
    log.write({"step": 1, "grad_norm": float("inf"), "losses": {"a": float("nan")}})
    log.close()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, "grad_norm": None, "losses": {"a": None}}


def test_the_recipe_tells_settings_versions_seed_and_command_of_every_start(settings, tmp_path):
    write_recipe(tmp_path, settings, {"recipe": "tiny:sigmoid"}, ["equigrad", "train", "tiny:sigmoid"], 0)
    write_recipe(tmp_path, settings, {"recipe": "tiny:sigmoid"}, ["equigrad", "train", "--resume"], 40)
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    assert recipe["seed"] == 17
    assert recipe["recipe"] == "tiny:sigmoid"
    assert recipe["settings"]["optimizer"]["lr"] == 0.1
    assert recipe["settings"]["schedule"]["decay"] == {"type": "Constant"}
    assert {"python", "torch", "equigrad"} <= recipe["versions"].keys()
    assert [(start["step"], start["command"][-1]) for start in recipe["starts"]] == [
        (0, "tiny:sigmoid"),
        (40, "--resume"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "not the folder of a run, it has no recipe.json"),
        ('{"format": 2, "sta', "recipe.json: not JSON"),
        ("[" * 100_000, "recipe.json: not JSON"),
        ('{"recipe": "tiny:ce", "set": []}', "recipe.json: no format version"),
        ('{"format": 3}', "format 3 is not known here, expected 2"),
        ('{"format": 2, "starts": []}', "expected the fields starts and settings"),
    ],
)
def test_a_recipe_that_cannot_be_understood_is_one_line_with_its_file(content, message, tmp_path):
    if content is not None:
        (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(EngineError, match=message) as raised:
        read_recipe(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_line_that_will_be_written_again_is_dropped_with_those_after_the_checkpoint(tmp_path):
    log_steps(tmp_path, 0, [1, 2, 3])
    RunLog(tmp_path, 2, keeps_last_line=False).close()
    assert [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1]


def test_an_empty_folder_is_accepted_and_a_used_one_only_to_resume(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / ".recipe.json.7.part").write_text("{")  # of a run that was killed at once
    check_run_folder(tmp_path, resume=False)
    check_run_folder(tmp_path, resume=True)
    (tmp_path / "recipe.json").write_text("{}")
    check_run_folder(tmp_path, resume=True)
    with pytest.raises(EngineError, match="is not empty: choose another with --run"):
        check_run_folder(tmp_path, resume=False)


def test_a_folder_that_is_not_a_run_is_not_resumed(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(EngineError, match=r"has no recipe.json"):
        check_run_folder(tmp_path, resume=True)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text, None),
        (lambda text: text + '{"step": 5, "lo', None),  # a kill after the checkpoint: the line will be written again
        (lambda text: text[: len(text) // 2 + 9], "2 of 4 lines up to step 4 can be read, the others are lost"),
        (lambda text: "".join(text.splitlines(True)[:3]), "3 of 4 lines up to step 4 can be read, the others are lost"),
        (lambda text: text.replace("}}", "}{", 1), "3 of 4 lines up to step 4 can be read, the others are lost"),
        (lambda text: text.replace("0.3", "0.8"), "some of its lines up to step 4 are not what the run has written"),
        (lambda text: text * 2, "some of its lines up to step 4 are not what the run has written"),
        (lambda text: "[" * 100_000 + "\n" + text, None),
    ],
)
def test_a_damaged_log_is_noticed_when_the_run_goes_on(damage, message, tmp_path):
    log = RunLog(tmp_path, 0)
    for step in (1, 2, 3, 4):
        log.write({"step": step, "loss": step / 10, "seconds_per_step": step, "losses": {"classification": 1.0}})
    log.close()
    file, warnings = tmp_path / "metrics.jsonl", []
    file.write_text(damage(file.read_text()))
    RunLog(tmp_path, 4, expected=log.content, warn=warnings.append).close()
    assert warnings == ([] if message is None else [f"warning: {file}: {message}"])


def test_a_log_that_is_gone_is_noticed_when_the_run_goes_on(tmp_path):
    warnings = []
    RunLog(tmp_path, 4, expected={"lines": 4, "checksum": 1}, warn=warnings.append).close()
    (warning,) = warnings
    assert "metrics.jsonl: 0 of 4 lines up to step 4 can be read, the others are lost" in warning


@pytest.mark.parametrize(
    ("environment", "goes_on"),
    [
        ({"TORCHELASTIC_RESTART_COUNT": "1"}, True),
        ({"TORCHELASTIC_RESTART_COUNT": "0"}, True),  # on a node that has replaced another
        ({"TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_RUN_ID": "another"}, False),
    ],
)
def test_a_run_goes_on_by_itself_only_in_the_job_that_has_started_it(
    environment, goes_on, settings, tmp_path, monkeypatch
):
    started = {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "0"}
    for name, value in {**started, "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert not was_restarted(tmp_path)
    write_recipe(tmp_path, settings, {}, ["equigrad"], 0)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert was_restarted(tmp_path) == goes_on
