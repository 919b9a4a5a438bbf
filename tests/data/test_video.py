from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from equigrad.data.video import open_camera, open_video, video_writer

pytest.importorskip("av")


def write_video(file, reds, size=(64, 48)):
    with video_writer(file, Fraction(10)) as writer:
        for red in reds:
            writer.add(Image.new("RGB", size, (red, 60, 60)))
    return file


def test_frames_come_back_in_their_order_size_and_rate(tmp_path):
    file = write_video(tmp_path / "clip.mp4", [0, 80, 160, 240])
    with open_video(file) as video:
        assert (video.rate, video.num_frames) == (10, 4)
        frames = list(video.frames())
    assert {(frame.size, frame.mode) for frame in frames} == {((64, 48), "RGB")}
    np.testing.assert_allclose([frame.getpixel((30, 20))[0] for frame in frames], [0, 80, 160, 240], atol=6)
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.parametrize("size", [(65, 49), (1, 1)])
def test_pictures_of_odd_sizes_can_be_written(size, tmp_path):
    with open_video(write_video(tmp_path / "clip.mp4", [9, 9], size)) as video:
        (first, _) = video.frames()
    assert first.size == tuple(max(side // 2 * 2, 2) for side in size)


def test_a_picture_of_another_size_is_fitted_into_that_of_the_first(tmp_path):
    with video_writer(tmp_path / "clip.mp4", Fraction(10)) as writer:
        for size in ((64, 48), (64, 200)):
            writer.add(Image.new("RGB", size, (200, 0, 0)))
    with open_video(tmp_path / "clip.mp4") as video:
        frames = list(video.frames())
    assert [frame.size for frame in frames] == [(64, 48)] * 2
    assert frames[1].getpixel((32, 24))[0] > 150
    assert min(frames[1].getpixel((2, 24))) > 240


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    def write_half():
        with video_writer(tmp_path / "clip.mp4", Fraction(10)) as writer:
            writer.add(Image.new("RGB", (64, 48)))
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert not list(tmp_path.iterdir())


def test_a_driver_of_cameras_gives_frames_without_end():
    with open_camera("testsrc=size=64x48:rate=5", driver="lavfi") as video:
        frames = video.frames()
        assert [next(frames).size for _ in range(3)] == [(64, 48)] * 3
        assert (video.num_frames, video.rate) == (None, 5)


def test_a_camera_that_is_not_there_is_named():
    with pytest.raises(OSError, match="camera /dev/no_camera: cannot read the video"), open_camera("/dev/no_camera"):
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no video",
        b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsecret.mp4\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile secret.mp4\n",
    ],
)
def test_what_is_no_video_is_refused_and_a_playlist_opens_no_other_file(content, tmp_path):
    write_video(tmp_path / "secret.mp4", [0])
    (tmp_path / "clip.mp4").write_bytes(content)
    with pytest.raises(OSError, match=r"clip\.mp4: cannot read the video"), open_video(tmp_path / "clip.mp4"):
        pass


def test_a_video_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.mp4: no such video"), open_video(tmp_path / "gone.mp4"):
        pass


def test_a_cut_video_gives_an_error_that_names_it(tmp_path):
    file = write_video(tmp_path / "clip.mp4", range(0, 250, 5))
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(OSError, match=r"clip\.mp4: cannot read the video"), open_video(file) as video:
        list(video.frames())
