import io

import pytest
from PIL import Image

from equigrad.recipes.catalogue import load_recipe
from equigrad.tasks.examples.segmentation import find
from equigrad.tasks.examples.wanted import Wanted
from running import train

SETTINGS = [
    *("data.num_glyphs=3", "data.max_count=8", "data.imbalance_factor=2", "data.test_count=3"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, named = tmp_path_factory.mktemp("runs") / "run", load_recipe("tiny:segmentation", SETTINGS)
    train(named.recipe, folder, source=named.source())
    return folder, named.recipe


def test_images_of_a_category_come_with_the_regions_of_each_run(run):
    folder, recipe = run
    background, glyph = find([folder, folder], [recipe, recipe], [Wanted(label, 1, is_gain=True) for label in (0, 3)])
    assert len(background) == 3
    for example in (*background, *glyph):
        first, second = example.answers
        assert first == second  # the same run twice
        assert "of its pixels found, IoU" in first.text
        assert Image.open(io.BytesIO(first.picture)).size == Image.open(io.BytesIO(example.picture)).size


def test_a_run_without_weights_is_named(run, tmp_path):
    folder, recipe = run
    (tmp_path / "evaluation.json").write_bytes((folder / "evaluation.json").read_bytes())
    with pytest.raises(ValueError, match="checkpoint"):
        find([tmp_path], [recipe], [Wanted(0, run=0, is_gain=True)])
