import pytest

from commands.running_commands import SHORT_RUN, equigrad
from equigrad.tasks.classification.data import GlyphImages
from images_on_disk import write_images
from stopping_glyphs import load_stopping


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a small finished run of a classifier, trained once for all files."""
    folder = tmp_path_factory.mktemp("runs") / "softmax_eql"
    settings = ["method.loss.prior_power=0.5", *SHORT_RUN]
    done = equigrad("train", "tiny:softmax_eql", "--run", folder, settings=settings)
    assert done.code == 0, done.err
    assert "Overall" in done.out
    return folder


@pytest.fixture
def photos(tmp_path):
    """`photos/train` and `photos/test`, one folder a category."""
    write_images(tmp_path / "photos" / "train", {"cat": 12, "dog": 6, "eel": 3}, size=16)
    write_images(tmp_path / "photos" / "test", {"cat": 2, "dog": 1, "eel": 1}, size=16, seed=1)
    return tmp_path / "photos"


@pytest.fixture
def stopping_glyphs():
    """Reading the glyphs of a training brings a SIGTERM; `undo()` ends that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GlyphImages, "load", load_stopping)
        yield patch
