"""The published numbers, and that every recipe of a table finds its own."""

import pytest

from equigrad.recipes.catalogue import all_recipes, rows_of_recipe
from equigrad.recipes.tables import TABLES
from running import load

# The overall column, and those of the groups it is made of.
GROUPS = {
    "Overall": ("Many", "Medium", "Few"),
    "mIoU": ("mIoU1", "mIoU2", "mIoU3"),
    "mAcc": ("mAcc1", "mAcc2", "mAcc3"),
    "AP": ("APr", "APc", "APf"),
}
SIZES = ("APs", "APm", "APl")
FIFTHS = ("AP1", "AP2", "AP3", "AP4", "AP5")
# What a recipe offers for comparison: the paper has the first on iNaturalist alone, the others for images alone.
NOT_PUBLISHED = {
    "imagenet_lt": {"method=dive_softmax_eql"},
    "place_Lt": {"method=dive_softmax_eql"},
    "ade20k": {"method=balanced_softmax", "method=logit_adjustment", "method=seesaw"},
}

ROWS = [(table, row) for table, rows in TABLES.items() for row in rows]


def recipes_of_tables():
    for name, _ in all_recipes():
        for settings in rows_of_recipe(name):
            recipe = load(name, settings)
            if recipe.table:
                yield settings, recipe


def groups_of(row):
    """Overall columns of a row with their groups."""
    found = {overall: names for overall, names in GROUPS.items() if set(names) <= set(row)}
    for names in (SIZES, FIFTHS):
        if set(names) <= set(row):
            found["AP"] = names
    return found


def test_every_recipe_of_a_table_finds_its_row():
    missing = {}
    for settings, recipe in recipes_of_tables():
        if recipe.row not in TABLES[recipe.table]:
            missing.setdefault(recipe.table, set()).update(settings)
    expected = {
        table: methods for table in TABLES for start, methods in NOT_PUBLISHED.items() if table.startswith(start)
    }
    assert missing == expected


def test_every_published_row_has_a_recipe():
    assert set(ROWS) <= {(recipe.table, recipe.row) for _, recipe in recipes_of_tables()}


@pytest.mark.parametrize("table", TABLES)
def test_the_rows_of_a_table_have_the_same_columns_with_per_cent(table):
    rows = list(TABLES[table].values())
    assert len({tuple(row) for row in rows}) == 1
    for row in rows:
        assert all(0 <= value <= 100 for value in row.values())
        assert row[next(iter(row))] > 10  # of the overall column: no share of 1


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_the_overall_number_lies_among_those_of_its_groups(table, row):
    published = TABLES[table][row]
    groups = groups_of(published)
    assert groups
    for overall, names in groups.items():
        values = [published[name] for name in names]
        assert min(values) <= published[overall] <= max(values)


@pytest.mark.parametrize("row", TABLES["coco_results"])
def test_ap_falls_with_the_threshold(row):
    published = TABLES["coco_results"][row]
    assert published["AP50"] > published["AP75"] > published["AP"]


def test_the_whole_is_the_mean_of_three_equal_groups_of_pixels():
    for table in (rows for name, rows in TABLES.items() if name.startswith("ade20k")):
        for row in table.values():  # three equal groups: the whole is their mean, as far as it was printed
            for metric in ("mIoU", "mAcc"):
                groups = [row[f"{metric}{group}"] for group in (1, 2, 3)]
                assert sum(groups) / 3 == pytest.approx(row[metric], abs=0.1)


@pytest.mark.parametrize(
    ("table", "row", "printed"),
    [
        ("yolox_results (small)", "EFL", [23.3, 18.1, 21.2, 28.0]),
        ("yolox_results (medium)", "EQFL", [31.0, 24.0, 29.1, 36.2]),
        ("main_results (ResNet-50, one-stage)", "RetinaNet", [18.5, 9.6, 16.1, 25.0]),
        ("main_results (ResNet-101, one-stage)", "EFL", [29.2, 23.5, 27.4, 33.8]),
        ("ablation_study_components", "FF", [26.2, 17.7, 24.7, 31.5]),
        ("s_effect", "s=12", [26.5, 19.9, 24.6, 31.6]),
        ("one_stage_with_efl (FCOS*)", "FL+EQL", [23.0, 14.1, 21.3, 28.7]),
        ("one_stage_with_efl (PAA)", "EFL", [25.6, 19.8, 23.8, 30.2]),
        ("oid_results (R50, one-stage)", "Baseline†", [43.3, 19.4, 44.3, 49.5, 50.6, 52.2]),
        ("coco_results", "EFL(s=2)", [42.4, 61.0, 46.1, 26.5, 46.2, 53.2]),
    ],
)
def test_published_numbers_are_those_printed(table, row, printed):
    assert list(TABLES[table][row].values()) == printed


def test_rows_that_are_the_same_training_have_the_same_numbers():
    efl, baseline = [27.5, 20.2, 26.1, 32.4], [25.7, 14.3, 23.8, 32.7]
    for table, rows in {
        "main_results (ResNet-50, one-stage)": ("EFL", "Baseline†"),
        "ablation_study_components": ("WF FF", "none"),
        "s_effect": ("s=8", "s=0"),
        "one_stage_with_efl (Baseline†)": ("EFL", "FL"),
    }.items():
        assert [list(TABLES[table][row].values()) for row in rows] == [efl, baseline]


@pytest.mark.parametrize(
    ("table", "row", "column", "printed"),
    [
        ("ade20k_lt_results (PSPNet, R50)", "Softmax-EQL", "mAcc3", 27.07),
        ("ade20k_results (DeepLabV3+, R101)", "Sigmoid-EQL", "mIoU", 45.96),
    ],
)
def test_a_column_has_the_number_printed_under_it(table, row, column, printed):
    assert TABLES[table][row][column] == printed
