"""What `examples/` do with semantic segmentation: overlays side by side, ranks of the right category, by heart."""

import pytest
from PIL import Image

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.cli import main
from scripts import run_script

SETTINGS = [
    *("data.num_glyphs=5", "data.max_count=16", "data.imbalance_factor=8", "data.test_count=2"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of the same scenes."""
    folders = [tmp_path_factory.mktemp("runs") / method for method in ("ce", "softmax_eql")]
    for folder in folders:
        words = [word for setting in [f"method={folder.name}", *SETTINGS] for word in ("--set", setting)]
        assert main(["train", "tiny:segmentation", *words, "--run", str(folder)]) == 0
    return folders


def draw(folders, output, *arguments):
    return run_script("examples/segmentation_overlays.py", *folders, "--output", output, *arguments)


def test_the_image_the_truth_and_every_run_are_drawn_beside_each_other(runs, tmp_path):
    both, one = tmp_path / "both", tmp_path / "one"
    drawn = draw(runs, both, "--images", "2")
    assert drawn.returncode == 0, drawn.stderr
    assert sorted(drawn.stdout.split()) == sorted(str(file) for file in both.iterdir())
    names = [file.stem for file in both.iterdir()]
    assert len(names) == 2
    draw(runs[:1], one, "--names", *names)
    for name in names:  # four panels in two rows, three in one
        heights = [Image.open(folder / f"{name}.png").height for folder in (both, one)]
        assert heights[0] > 1.5 * heights[1]


def test_an_unknown_image_is_named(runs, tmp_path):
    drawn = draw(runs, tmp_path, "--names", "nowhere")
    assert drawn.returncode == 1
    assert drawn.stderr.startswith("error: no test image 'nowhere'")


def test_the_right_category_has_a_rank_in_every_group(runs):
    printed = run_script("examples/segmentation_ranks.py", runs[0])
    assert printed.returncode == 0, printed.stderr
    rows = [line.strip("| ").split(" | ") for line in printed.stdout.splitlines()[2:]]
    assert [row[1] for row in rows] == ["head", "medium", "tail"]
    result = Evaluation.load(runs[0]).result
    accuracies = [100 * result[f"mAcc{group}"] for group in (1, 2, 3)]
    assert [float(row[2]) for row in rows] == pytest.approx(accuracies, abs=0.1)
    for row in rows:
        first, first_5, rank, below = map(float, row[2:])
        assert first <= first_5 <= 100
        assert 1 <= rank <= 6
        assert below >= 0


def test_a_few_images_are_learned_by_heart():
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    printed = run_script(
        "examples/segmentation_by_heart.py", "tiny:segmentation", *words, "--images", 4, "--steps", 300
    )
    assert printed.returncode == 0, printed.stderr
    first, *steps, lowest = printed.stdout.splitlines()
    assert first.startswith("4 images of glyph scenes")
    reached = [float(line.split("mIoU")[1]) for line in steps]
    assert reached[0] < 60 < reached[-1]
    assert lowest.startswith("lowest: ")


def test_what_cannot_be_learned_by_heart_is_said_in_one_line():
    printed = run_script("examples/segmentation_by_heart.py", "tiny:ce")
    assert printed.returncode == 1
    assert printed.stderr == "error: tiny:ce: expected a recipe of semantic segmentation\n"
