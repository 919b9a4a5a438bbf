import pytest

from equigrad.cli import main
from equigrad.recipes.catalogue import all_recipes
from equigrad.recipes.methods.segmentation import PAPER_METHODS
from equigrad.recipes.tables import TABLES
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet
from equigrad.tasks.smoke_test.generated_scenes import write_label_folders
from running import load

PUBLISHED = [name for name, _ in all_recipes() if name.startswith("semantic_segmentation:")]
METRICS = {f"{metric}{group}" for metric in ("mIoU", "mAcc") for group in ("", 1, 2, 3)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_stands_for_every_row_of_its_table(name):
    rows = {}
    for method in PAPER_METHODS:
        recipe = load(name, [f"method={method}"])
        rows[recipe.row] = recipe.table
        assert set(TABLES[recipe.table][recipe.row]) == METRICS
    assert set(rows) == set(TABLES[recipe.table])


def test_every_published_table_has_a_recipe():
    tables = {load(name).table for name in PUBLISHED}
    assert tables == {table for table in TABLES if table.startswith("ade20k")}
    assert len(tables) == 8


@pytest.mark.parametrize(("name", "steps"), [("ade20k_lt_pspnet_r50", 40_000), ("ade20k_deeplabv3plus_r101", 80_000)])
def test_settings_are_the_published_ones(name, steps):
    recipe = load(f"semantic_segmentation:{name}")
    training, schedule = recipe.training, recipe.training.schedule
    assert (training.batch_size, training.sync_batch_norm, recipe.auxiliary) == (16, True, "ce")
    assert (training.optimizer.lr, training.optimizer.momentum, training.optimizer.weight_decay) == (0.01, 0.9, 5e-4)
    assert schedule.total_steps(1000) == steps
    lrs = [0.01 * schedule.factor(step, 1000, steps) for step in (0, steps // 2, steps)]
    assert lrs == pytest.approx([0.01, 0.0099 * 0.5**0.9 + 1e-4, 1e-4])
    assert (recipe.data.crop_size, recipe.data.base, recipe.data.group_by) == (512, (2048, 512), "index")
    assert (recipe.data.train_list is not None) == ("lt" in name)
    assert recipe.head == (PSPNet() if "pspnet" in name else DeepLabV3Plus())


def test_weights_that_are_not_there_are_named():
    recipe = load("semantic_segmentation:ade20k_pspnet_r50")
    with pytest.raises(FileNotFoundError, match=r"resnet50_v1c.pth: no such weight file"):
        recipe.backbone.build()
    plain = load("semantic_segmentation:ade20k_pspnet_r101", ["deep_stem=false"])
    with pytest.raises(FileNotFoundError, match=r"resnet101.pth: no such weight file"):
        plain.backbone.build()


def test_a_users_folders_are_trained_on_with_one_command(tmp_path, capsys):
    write_label_folders(tmp_path)
    words = ["train", "own_data:semantic_segmentation", "--run", str(tmp_path / "run")]
    settings = [
        *(f"data.images={tmp_path}/images", f"data.labels={tmp_path}/labels", f"data.names={tmp_path}/names.txt"),
        *("data.crop_size=64,64", "data.base=256,64", "training.batch_size=4", "training.schedule.epochs=1"),
        "training.num_workers=0",
    ]
    assert main([*words, *(word for setting in settings for word in ("--set", setting))]) == 0
    shown = capsys.readouterr().out
    assert "mIoU3" in shown.splitlines()[-2]
    image = tmp_path / "images" / "0.jpg"
    assert main(["predict", str(tmp_path / "run"), str(image)]) == 0
    assert "category" in capsys.readouterr().out
    assert (tmp_path / "run" / "predictions" / "0.png").exists()
    table = tmp_path / "table.csv"
    assert main(["evaluate", str(tmp_path / "run"), "--csv", str(table), "--json", str(tmp_path / "r.json")]) == 0
    assert table.read_text().startswith("name,count,group,")
