"""A run that was stopped says so to whoever uses it, and how to continue."""

import shlex
import shutil
import signal

import pytest

from commands.running_commands import SHORT_RUN, equigrad
from equigrad import load
from equigrad.tasks.classification.data import GlyphImages
from images_on_disk import write_images


@pytest.fixture
def stopped(stopping_glyphs, tmp_path):
    """The folder of a run that was stopped after its first step."""
    folder = tmp_path / "a run"
    assert equigrad("train", "tiny:ce", "--run", folder, settings=SHORT_RUN).code == 3
    stopping_glyphs.undo()
    write_images(tmp_path / "photos", {"a": 1}, size=16)
    return folder


def test_commands_tell_how_far_it_is_and_the_command_they_name_finishes_it(stopped, tmp_path):
    quoted = shlex.quote(str(stopped))
    note = (
        f"equigrad: {stopped}: the run is not finished, step 1 of 4; to continue: equigrad train tiny:ce --run {quoted}"
    )
    page = tmp_path / "page.html"
    for words in (
        ["evaluate", stopped],
        ["predict", stopped, tmp_path / "photos", "--output", tmp_path / "drawn"],
        ["report", stopped, "--output", page],
        ["export", stopped, "--format", "torchscript"],
    ):
        done = equigrad(*words)
        assert done.code == 0, done.err
        assert done.err.splitlines()[0] == f"{note} --resume"
    resumption = shlex.split(done.err.partition("to continue: equigrad ")[2].splitlines()[0])
    assert equigrad(*resumption).code == 0
    assert equigrad("evaluate", stopped).err == ""


def test_its_model_is_loaded_with_a_warning(stopped):
    with pytest.warns(UserWarning, match="the run is not finished, step 1 of 4; to continue: equigrad train tiny:ce"):
        model = load(stopped)
    assert len(model.predict(stopped.parent / "photos")) == 1


def test_a_new_training_in_its_folder_is_told_to_resume(stopped):
    done = equigrad("train", "tiny:ce", "--run", stopped, settings=SHORT_RUN)
    assert done.code == 1
    assert done.err == (
        f"equigrad: the run folder {stopped} is not empty: its run is not finished, step 1 of 4; "
        "--resume continues, or choose another with --run\n"
    )


@pytest.fixture
def stopping_test_images():
    """Reading a test image brings a Ctrl-C; `undo()` ends that."""
    load = GlyphImages.load

    def load_stopping(images):
        train_set, test_set = load(images)
        plain = test_set.transform

        def transform(image):
            test_set.transform = plain  # once
            signal.raise_signal(signal.SIGINT)
            return plain(image)

        test_set.transform = transform
        return train_set, test_set

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GlyphImages, "load", load_stopping)
        yield patch


def test_ctrl_c_during_the_evaluation_of_a_training_stops_it_and_nothing_is_lost(stopping_test_images, run, tmp_path):
    folder = tmp_path / "run"
    words = ["train", "tiny:softmax_eql", "--run", folder]
    settings = ["method.loss.prior_power=0.5", *SHORT_RUN]
    done = equigrad(*words, settings=settings)
    assert done.code == 3, done.err
    assert "stopping: the evaluation ends with this batch" in done.out
    assert "stopped at step 4 of 4 during the evaluation; to continue: equigrad train tiny:softmax_eql" in done.out
    assert not (folder / "evaluation.json").exists()
    refused = equigrad(*words, settings=settings)
    assert "its run is not finished, step 4 of 4, without its evaluation; --resume continues" in refused.err
    stopping_test_images.undo()
    assert equigrad(*words, "--resume", settings=settings).code == 0
    assert (folder / "evaluation.json").read_text() == (run / "evaluation.json").read_text()


def test_ctrl_c_ends_an_evaluation_at_once_and_leaves_the_run_as_it_was(stopping_test_images, run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = equigrad("evaluate", folder)
    assert (done.code, done.err) == (3, "equigrad: interrupted\n")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
