import pytest

from equigrad.recipes.mini import mini
from equigrad.recipes.names import TABLE_NAMES
from equigrad.recipes.table_rows import RowRecipe, rows_of_table
from equigrad.recipes.tables import TABLES
from equigrad.tasks.paper_tables.planning import Wanted, in_order, planned_run


def runs_of(name, scale=mini):
    return {
        row: planned_run(Wanted(scale(row.recipe.load()), row.start and scale(row.start.load()), row.is_reading), 0)
        for row in rows_of_table(name)
    }


def test_every_row_of_every_table_has_a_recipe():
    found = {(row.full_table, row.label) for name in TABLE_NAMES for row in rows_of_table(name)}
    assert found == {(table, label) for table, labels in TABLES.items() for label in labels}


def test_rows_are_in_the_order_of_the_paper():
    labels = [row.label for row in rows_of_table("s_effect")]
    assert labels == ["s=0", "s=1", "s=2", "s=4", "s=8", "s=12"]


def test_methods_with_the_same_label_are_told_apart():
    shown = [row.shown_label for row in rows_of_table("comparison_sota_lvis1") if row.variant.startswith("R50")]
    assert shown[-3:] == ["Softmax-EQL", "Softmax-EQL (softmax_eql_cosine)", "Sigmoid-EQL"]


def test_an_unknown_table_gets_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean s_effect"):
        rows_of_table("s_efect")


def test_second_stages_know_the_run_they_start_from():
    starts = {row.recipe.method: row.start for row in rows_of_table("better_repr")}
    assert starts["crt_eql"] == RowRecipe("two_stage:decoupled", "sigmoid_eql")
    assert starts["crt"] == RowRecipe("two_stage:decoupled", "ce")
    starts = {row.recipe.method: row.start for row in rows_of_table("imagenet_lt")}
    assert starts["dive"].method == "balanced_softmax"
    assert starts["ce"] is None


def test_norcal_reads_the_run_with_cross_entropy_again():
    row = next(row for row in rows_of_table("main_results") if row.label == "NorCal")
    assert row.is_reading
    assert row.start == RowRecipe("two_stage:lvis_faster_rcnn_r50", "ce")


def test_mini_rows_that_differ_in_depth_alone_share_a_run():
    runs = runs_of("longer_schedule")
    names = {(row.variant, row.label): run.name for row, run in runs.items()}
    assert names["ResNet-50", "CE baseline"] == names["ResNet-101", "CE baseline"]
    assert names["ResNet-50", "CE baseline"] != names["ResNet-50", "Sigmoid-EQL"]


def test_tables_share_the_runs_they_have_in_common():
    everywhere = {run.name for run in runs_of("s_effect").values()} & {
        run.name for run in runs_of("ablation_study_components").values()
    }
    assert len(everywhere) == 2  # s = 0 is focal loss, s = 8 is EFL


def test_full_rows_keep_depth_and_length_apart():
    names = {run.name for run in runs_of("longer_schedule", lambda recipe: recipe).values()}
    assert len(names) == 4


def test_first_stages_come_first_and_once():
    runs = in_order(list(runs_of("better_repr").values()))
    assert len({run.name for run in runs}) == len(runs) == 8  # six rows on two first stages
    names = [run.name for run in runs]
    assert all(run.start is None or names.index(run.start.name) < names.index(run.name) for run in runs)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_mini_row_is_a_recipe_of_the_same_method(name):
    for row in rows_of_table(name):
        full = row.recipe.load()
        small = mini(full)
        assert type(small.method.loss) is type(full.method.loss)
        assert small.training.schedule.steps <= 600
