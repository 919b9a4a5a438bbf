import pytest

from equigrad.recipes.catalogue import all_recipes, load_recipe
from equigrad.recipes.methods import ROWS
from equigrad.recipes.tables import TABLES

BENCHMARKS = [name for name, _ in all_recipes() if name.startswith("image_classification:")]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("method", ROWS)
def test_every_row_of_the_tables_is_a_recipe(benchmark, method):
    recipe = load_recipe(benchmark, [f"method={method}"])
    assert recipe.method is ROWS[method][1]
    if method != "dive_softmax_eql" or "inat" in recipe.table:  # the paper has it on iNaturalist alone
        assert set(TABLES[recipe.table][recipe.row]) == {"Overall", "Many", "Medium", "Few"}


@pytest.mark.parametrize("table", TABLES)
def test_every_published_row_has_a_recipe(table):
    rows = {label for label, _ in ROWS.values()}
    assert set(TABLES[table]) <= rows


def test_missing_data_says_what_to_place_where(tmp_path):
    recipe = load_recipe(BENCHMARKS[0], [f"data.root={tmp_path}"])
    with pytest.raises(FileNotFoundError, match=r"ImageNet_LT_train.txt: no such list; place ImageNet's"):
        recipe.data.load()
