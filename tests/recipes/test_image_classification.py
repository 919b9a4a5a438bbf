import numpy as np
import pytest

from equigrad.engine import EngineError
from equigrad.recipes.catalogue import all_recipes
from equigrad.recipes.methods.classification import METHODS
from equigrad.recipes.tables import TABLES
from equigrad.tasks.classification.run import build_model
from equigrad.tasks.losses import CategoryCounts
from running import load

COUNTS = CategoryCounts(np.array([3, 1]), np.array([3, 1]))
BENCHMARKS = [name for name, _ in all_recipes() if name.startswith("image_classification:")]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_row_of_the_tables_is_a_recipe(benchmark, method):
    recipe = load(benchmark, [f"method={method}"])
    other = (method == "lade" and "inat" in recipe.table) or (METHODS[method][1].second_stage and "places" in benchmark)
    if not other:
        assert recipe.method == METHODS[method][1]
    if method != "dive_softmax_eql" or "inat" in recipe.table:  # the paper has it on iNaturalist alone
        assert set(TABLES[recipe.table][recipe.row]) == {"Overall", "Many", "Medium", "Few"}


@pytest.mark.parametrize("table", [load(name).table for name in BENCHMARKS])
def test_every_published_row_has_a_recipe(table):
    rows = {label for label, _ in METHODS.values()}
    assert set(TABLES[table]) <= rows


def test_missing_data_says_what_to_place_where(tmp_path):
    recipe = load(BENCHMARKS[0], [f"data.root={tmp_path}"])
    with pytest.raises(FileNotFoundError, match=r"ImageNet_LT_train.txt: no such list; place ImageNet's"):
        recipe.data.load()


def settings(benchmark, method):
    training = load(f"image_classification:{benchmark}", [f"method={method}"]).training
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
        ("inaturalist18_resnet50", "disalign", (30, 512, 0.1, 1e-4)),
        ("imagenet_lt_resnet50", "softmax_eql_released", (90, 512, 0.1, 5e-4)),
        ("places_lt_resnet152", "ce", (30, 256, 0.2, 5e-4)),
        ("places_lt_resnet152", "crt", (10, 256, 0.1, 5e-4)),
        ("places_lt_resnet152", "lws", (5, 256, 0.1, 5e-4)),
        ("places_lt_resnet152", "disalign", (10, 256, 0.1, 5e-4)),
    ],
)
def test_every_stage_has_its_published_settings(benchmark, method, expected):
    assert settings(benchmark, method) == expected


def test_the_released_softmax_eql_has_a_cosine_classifier_and_nesterov():
    recipe = load("image_classification:imagenet_lt_resnet50", ["method=softmax_eql_released"])
    assert recipe.method.cosine_temperature == 30
    assert recipe.training.optimizer.nesterov
    assert not load("image_classification:imagenet_lt_resnet50", ["method=softmax_eql"]).training.optimizer.nesterov


@pytest.mark.parametrize("method", ["crt", "lws", "disalign"])
def test_second_stages_of_places_leave_batch_norms_as_the_first_left_them(method):
    stage = load("image_classification:places_lt_resnet152", [f"method={method}"]).method.second_stage
    assert stage.batch_norm == "frozen"


def test_lade_has_other_weights_on_inaturalist():
    losses = [
        load(f"image_classification:{benchmark}", ["method=lade"]).method.loss.build(COUNTS)
        for benchmark in ("imagenet_lt_resnet50", "inaturalist18_resnet50")
    ]
    assert [(loss.weight, loss.penalty) for loss in losses] == [(0.1, 0.1), (0.05, 0.5)]


def test_a_second_stage_without_its_first_says_what_to_give():
    recipe = load(BENCHMARKS[0], ["method=crt"])
    with pytest.raises(EngineError, match="--init RUN"):
        build_model(recipe, COUNTS.images)


def test_weights_of_a_backbone_can_be_a_file():
    recipe = load("image_classification:places_lt_resnet152", ["backbone.weights=nowhere.pth"])
    with pytest.raises(FileNotFoundError, match=r"nowhere.pth: no such weight file"):
        recipe.backbone.build()
