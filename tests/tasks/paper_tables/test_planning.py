from dataclasses import dataclass, replace
from pathlib import Path

from equigrad.recipes import tiny
from equigrad.tasks.paper_tables.planning import Wanted, in_order, planned_run


def test_a_run_is_named_after_task_loss_settings_and_seed():
    run = planned_run(Wanted(tiny.softmax_eql(), None, False), seed=3)
    kind, loss, digest, seed = run.name.split("_")
    assert (kind, loss, seed) == ("classification", "softmaxeql", "3")
    assert len(digest) == 8
    assert run.recipe.training.seed == 3


def test_only_what_changes_the_result_changes_the_name():
    recipe = tiny.ce()
    name = planned_run(Wanted(recipe, None, False), 0).name
    harmless = replace(recipe, device="cpu", table="imagenet_lt", training=replace(recipe.training, num_workers=3))
    assert planned_run(Wanted(harmless, None, False), 0).name == name
    other = replace(recipe, training=replace(recipe.training, batch_size=32))
    assert planned_run(Wanted(other, None, False), 0).name != name


def test_the_run_it_starts_from_belongs_to_the_name():
    plain = planned_run(Wanted(tiny.ce(), None, False), 0)
    after_bce = planned_run(Wanted(tiny.ce(), tiny.bce(), False), 0)
    after_eql = planned_run(Wanted(tiny.ce(), tiny.sigmoid_eql(), False), 0)
    assert len({plain.name, after_bce.name, after_eql.name}) == 3
    assert [run.name for run in in_order([after_bce, after_bce])] == [after_bce.start.name, after_bce.name]


def test_a_run_is_finished_when_it_has_its_evaluation(tmp_path):
    run = planned_run(Wanted(tiny.ce(), None, False), 0)
    assert not run.is_finished(tmp_path)
    Path(tmp_path, run.name).mkdir()
    Path(tmp_path, run.name, "evaluation.json").write_text("{}")
    assert run.is_finished(tmp_path)


@dataclass(frozen=True)
class EarlierPart:
    size: int = 3


@dataclass(frozen=True)
class LaterPart:
    size: int = 3
    colour: str = "grey"


def test_a_setting_that_is_new_does_not_change_the_name():
    LaterPart.__name__ = EarlierPart.__name__
    recipe = tiny.ce()
    earlier, later, changed = (
        planned_run(Wanted(replace(recipe, backbone=part), None, False), 0).name
        for part in (EarlierPart(4), LaterPart(4), LaterPart(4, "red"))
    )
    assert earlier == later
    assert changed != later
