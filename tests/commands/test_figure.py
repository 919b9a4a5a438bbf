import pytest
from PIL import Image

from commands.running_commands import equigrad

SHORT = (
    *("training.schedule.steps=2", "training.schedule.warmup.length=1", "training.batch_size=4"),
    *("data.test_count=1", "data.max_count=6"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("figures")


def test_gradients_of_four_tasks_on_long_tailed_and_balanced_data(folder):
    done = equigrad("figure", "grad_ob", "--jobs", "1", settings=SHORT, folder=folder)
    assert done.code == 0, done.err
    assert "semantic segmentation, long-tailed: mean positive / negative gradient" in done.out
    with Image.open(folder / "runs/tables/mini/grad_ob.png") as figure:
        assert figure.width > figure.height


def test_the_ratio_of_two_runs_over_training(folder):
    done = equigrad("figure", "vis_balance_ratio", "--jobs", "1", settings=SHORT, folder=folder)
    assert done.code == 0, done.err
    assert (folder / "runs/tables/mini/vis_balance_ratio.png").read_bytes().startswith(b"\x89PNG")


def test_detections_of_two_runs_in_one_picture(folder):
    (folder / "scenes").mkdir()
    for name in ("a.png", "b.png", "c.png"):
        Image.new("RGB", (64, 64), "white").save(folder / "scenes" / name)
    words = ("figure", "vis_od", "--images", folder / "scenes", "--limit", "2", "--jobs", "1")
    done = equigrad(*words, "--output", folder / "objects.png", settings=SHORT, folder=folder)
    assert done.code == 0, done.err
    with Image.open(folder / "objects.png") as figure:
        assert figure.height == 2 * (48 + 480 + 8) - 8  # two runs, each with a heading
        assert figure.width > 480  # two images


def test_named_runs_are_drawn_instead_of_the_papers(folder):
    run = next((folder / "runs/tables/mini/runs").glob("detection_sigmoideql_*_0"))
    words = ("figure", "vis_balance_ratio", run, run, "--output", folder / "own.png")
    done = equigrad(*words, folder=folder)
    assert done.code == 0, done.err
    assert (folder / "own.png").is_file()


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (("vis_od",), "vis_od needs --images FOLDER", 2),
        (("vis_od", "--images", "nowhere"), "nowhere: no such file or folder", 1),
        (("vis_od", "--images", "."), ".: expected images in the folder", 1),
        (("grad_ob", "somewhere"), "takes none by name", 2),
        (("vis_balance_ratio", "nowhere"), "nowhere: no such run", 1),
    ],
)
def test_wrong_words_are_one_line(words, message, code, tmp_path):
    done = equigrad("figure", *words, folder=tmp_path)
    assert done.code == code
    assert done.err.count("\n") == 1
    assert message in done.err


def test_the_run_of_a_classifier_has_no_detections_to_draw(run, photos, tmp_path):
    words = ("figure", "vis_od", run, run, "--images", photos / "test", "--output", tmp_path / "objects.png")
    done = equigrad(*words, folder=tmp_path)
    assert done.code == 1
    assert done.err == f"equigrad: {run}: not the run of a detector; vis_od draws detections\n"
    assert not (tmp_path / "objects.png").exists()
