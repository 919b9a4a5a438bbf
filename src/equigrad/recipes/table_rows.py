"""The rows of the paper's tables: which recipe each stands for, and which run it starts from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from equigrad.recipes.catalogue import all_recipes, load_recipe, rows_of_recipe
from equigrad.recipes.methods.classification import FIRST_STAGES
from equigrad.recipes.mini import mini
from equigrad.recipes.names import check_table_name
from equigrad.recipes.tables import TABLES, Row
from equigrad.settings import override
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.run_folder import Recipe


@dataclass(frozen=True)
class RowRecipe:
    """A method in a recipe of the paper.

    Args:
        name: name of the recipe.
        method: the row's method, as for `--method`.
    """

    name: str
    method: str

    def load(self) -> Recipe:
        """The settings of the row."""
        return load_recipe(self.name, [f"method={self.method}"]).recipe

    def at_scale(self, scale: str, assignments: Sequence[str] = ()) -> Recipe:
        """The settings of the row, "full" or "mini", with `--set` assignments."""
        return override(mini(self.load()) if scale == "mini" else self.load(), assignments)


@dataclass(frozen=True)
class TableRow:
    """A row of a table.

    Args:
        table: its name.
        variant: what the table repeats its rows for, such as the backbone; empty if nothing.
        label: what the paper calls the row.
        recipe: what is trained.
        start: the run it starts from.
        is_reading: nothing is trained: it is another reading of that run's weights.
        is_first: whether it is the first row with this label; others are variants that the paper does not distinguish.
    """

    table: str
    variant: str
    label: str
    recipe: RowRecipe
    start: RowRecipe | None
    is_reading: bool
    is_first: bool

    @property
    def full_table(self) -> str:
        """The name of the table with the variant, as `TABLES` has it."""
        return f"{self.table} ({self.variant})" if self.variant else self.table

    @property
    def published(self) -> Row:
        """Numbers of the paper; empty if it has none."""
        return TABLES[self.full_table].get(self.label, {})

    @property
    def shown_label(self) -> str:
        """The label, with the name of the method where several have the same."""
        return self.label if self.is_first else f"{self.label} ({self.recipe.method})"


def rows_of_table(name: str) -> list[TableRow]:
    """The rows of a table in the paper's order; ValueError with the nearest name if there is no such table.

    Methods that the paper calls the same follow each other. Rows of a recipe that the paper does not have are left out.
    """
    check_table_name(name)
    order = [(table, label) for table, labels in TABLES.items() for label in labels]
    places = {entry: place for place, entry in enumerate(order)}
    rows = [row for row in _all_rows() if row.table == name and row.published]
    return sorted(rows, key=lambda row: (places[row.full_table, row.label], not row.is_first))


@cache
def _all_rows() -> tuple[TableRow, ...]:
    return tuple(_found_rows())


def _found_rows() -> Iterator[TableRow]:
    seen = set()
    for name, function in all_recipes():
        if not function().table:
            continue
        for assignment, *_ in rows_of_recipe(name):
            row_recipe = RowRecipe(name, assignment.removeprefix("method="))
            recipe = row_recipe.load()
            table, _, variant = recipe.table.removesuffix(")").partition(" (")
            is_first = (recipe.table, recipe.row) not in seen
            seen.add((recipe.table, recipe.row))
            start, is_reading = _start(row_recipe, recipe)
            yield TableRow(table, variant, recipe.row, row_recipe, start, is_reading, is_first)


def _start(row: RowRecipe, recipe: Recipe) -> tuple[RowRecipe | None, bool]:
    """The run that a row starts from, and whether it only reads its weights in another way."""
    if isinstance(recipe, ClassificationRecipe) and row.method == "logit_adjustment_post_hoc":
        return RowRecipe(row.name, "ce"), True
    if isinstance(recipe, ClassificationRecipe) and recipe.method.needs_init:
        first = next(first for method, first in FIRST_STAGES.items() if method == row.method)
        return RowRecipe(row.name, first), False
    if row.method == "norcal":
        return RowRecipe(row.name, "ce"), True
    if not isinstance(recipe, DetectionRecipe) or recipe.second_stage is None:
        return None, False
    if row.name == "two_stage:better_representation":
        return RowRecipe("two_stage:decoupled", "sigmoid_eql" if row.method.endswith("_eql") else "ce"), False
    return RowRecipe(row.name, "ce"), False
