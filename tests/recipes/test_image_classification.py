import numpy as np
import pytest

from equigrad.engine import EngineError
from equigrad.recipes.catalogue import all_recipes, load_recipe
from equigrad.recipes.methods import ROWS
from equigrad.recipes.tables import TABLES

BENCHMARKS = [name for name, _ in all_recipes() if name.startswith("image_classification:")]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("method", ROWS)
def test_every_row_of_the_tables_is_a_recipe(benchmark, method):
    recipe = load_recipe(benchmark, [f"method={method}"])
    if method != "lade" or "inat" not in recipe.table:
        assert recipe.method is ROWS[method][1]
    if method != "dive_softmax_eql" or "inat" in recipe.table:  # the paper has it on iNaturalist alone
        assert set(TABLES[recipe.table][recipe.row]) == {"Overall", "Many", "Medium", "Few"}


@pytest.mark.parametrize("table", [load_recipe(name).table for name in BENCHMARKS])
def test_every_published_row_has_a_recipe(table):
    rows = {label for label, _ in ROWS.values()}
    assert set(TABLES[table]) <= rows


def test_missing_data_says_what_to_place_where(tmp_path):
    recipe = load_recipe(BENCHMARKS[0], [f"data.root={tmp_path}"])
    with pytest.raises(FileNotFoundError, match=r"ImageNet_LT_train.txt: no such list; place ImageNet's"):
        recipe.data.load()


def settings(benchmark, method):
    training = load_recipe(f"image_classification:{benchmark}", [f"method={method}"]).training
    optimizer = training.optimizer
    return training.schedule.epochs, training.batch_size, optimizer.lr, optimizer.weight_decay


@pytest.mark.parametrize(
    ("benchmark", "method", "expected"),
    [
        ("imagenet_lt_resnet50", "ce", (90, 512, 0.2, 5e-4)),
        ("imagenet_lt_resnext50", "crt", (10, 512, 0.2, 5e-4)),
        ("imagenet_lt_resnet50", "lws", (5, 512, 0.2, 5e-4)),
        ("imagenet_lt_resnext50", "disalign", (10, 256, 0.1, 5e-4)),
        ("inaturalist18_resnet50", "ce", (90, 512, 0.2, 1e-4)),
        ("inaturalist18_resnet50", "crt", (30, 512, 0.2, 1e-4)),
        ("inaturalist18_resnet50", "lws", (5, 512, 0.2, 1e-4)),
        ("inaturalist18_resnet50", "disalign", (30, 256, 0.1, 5e-4)),
        ("places_lt_resnet152", "ce", (30, 256, 0.2, 5e-4)),
        ("places_lt_resnet152", "crt", (10, 256, 0.1, 5e-4)),
        ("places_lt_resnet152", "lws", (5, 256, 0.1, 5e-4)),
        ("places_lt_resnet152", "disalign", (10, 256, 0.1, 5e-4)),
    ],
)
def test_every_stage_has_its_published_settings(benchmark, method, expected):
    assert settings(benchmark, method) == expected


def test_lade_has_other_weights_on_inaturalist():
    losses = [
        load_recipe(f"image_classification:{benchmark}", ["method=lade"]).method.loss(np.array([3, 1]))
        for benchmark in ("imagenet_lt_resnet50", "inaturalist18_resnet50")
    ]
    assert [(loss.weight, loss.penalty) for loss in losses] == [(0.1, 0.1), (0.05, 0.5)]


def test_a_second_stage_without_its_first_says_what_to_give():
    recipe = load_recipe(BENCHMARKS[0], ["method=crt"])
    with pytest.raises(EngineError, match="--set init=RUN"):
        recipe.model(np.array([3, 1]))


def test_weights_of_a_backbone_can_be_a_file():
    recipe = load_recipe("image_classification:places_lt_resnet152", ["backbone.weights=nowhere.pth"])
    with pytest.raises(FileNotFoundError, match=r"nowhere.pth: no such weight file"):
        recipe.backbone()
