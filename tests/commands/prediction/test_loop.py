import csv
import signal

import pytest

import equigrad
from equigrad.commands.prediction.files import prediction_files
from equigrad.commands.prediction.inputs import ImageIds
from equigrad.commands.prediction.loop import PredictionLoop
from equigrad.data.video import open_camera, open_video

pytest.importorskip("av")


class StoppedAtThird:
    """A model; somebody presses Ctrl-C while it looks at the third frame."""

    def __init__(self, model):
        self.model, self.num_frames = model, 0

    def predict_sources(self, sources, **options):
        self.num_frames += 1
        if self.num_frames == 3:
            signal.raise_signal(signal.SIGINT)
        return self.model.predict_sources(sources, **options)


@pytest.fixture
def camera():
    with open_camera("testsrc=size=64x48:rate=5", driver="lavfi") as video:
        yield video


def test_ctrl_c_ends_a_camera_and_what_was_seen_is_kept(run, camera, tmp_path, capsys):
    model = StoppedAtThird(equigrad.load(run))
    with prediction_files(None, tmp_path / "found.csv") as files:
        loop = PredictionLoop({"run": model}, files, ImageIds(None), batch_size=1, threshold=None)
        loop._predict_frames(camera, "camera", tmp_path / "camera.mp4", None)
    loop.report_speed()
    shown = capsys.readouterr()
    assert shown.out == f"camera testsrc=size=64x48:rate=5: 2 frames -> {tmp_path}/camera.mp4\n"
    assert shown.err.startswith("2 images in ")
    with open_video(tmp_path / "camera.mp4") as video:
        assert video.num_frames == 2
    with (tmp_path / "found.csv").open() as stream:
        assert {row["image"] for row in csv.DictReader(stream)} == {"camera#0", "camera#1"}
