import pytest

from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.detection.run import build_model
from running import load
from shared_data import shared_folder

FILES = {
    "plantdoc": ("instances_train.json", "instances_test.json"),
    "coco228": ("instances_train128.json", "instances_val100.json"),
}


def recipe_of(name, *settings):
    folder = shared_folder(name)
    train, test = FILES[name]
    data = [f"data.train={folder / train}", f"data.test={folder / test}", f"data.images={folder / 'images.zip'}"]
    return load(f"small_detection:{name}", [*data, *settings])


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "num_images", "num_categories", "rarest"), [("plantdoc", 2317, 29, 2), ("coco228", 128, 80, 0)]
)
def test_the_data_is_read_and_a_step_trains_the_model(name, num_images, num_categories, rarest):
    recipe = recipe_of(name, "preprocessing.short=64", "preprocessing.test_short=64", "preprocessing.long=96")
    sets = recipe.data.load(with_masks=recipe.with_masks)
    categories = TrainedCategories.of(sets.train.data)
    assert (len(sets.train), len(categories), categories.instance_counts.min()) == (num_images, num_categories, rarest)
    model = build_model(recipe, categories)
    train_set = recipe.preprocessing.training(sets.train)
    images, targets = recipe.preprocessing.collate()([train_set[index] for index in range(2)])
    losses = model(images, targets)
    sum(losses.values()).backward()
    assert all(loss.isfinite() for loss in losses.values())
    assert model.pyramid.blocks[-1].project.conv.weight.grad.abs().sum() > 0
    assert model.pyramid.blocks[0].project.conv.weight.grad is None


def test_the_files_lie_in_a_folder_of_the_data_sets_name():
    recipe = load("small_detection:coco228", ["method=eqfl"])
    assert str(recipe.data.images) == "coco228/images.zip"
    assert recipe.method.with_quality
