"""Frames of video files and cameras, and pictures as a video, by PyAV: `pip install 'equigrad[video]'`.

with open_video("street.mp4") as video:
    for frame in video.frames(): ...                     # PIL images in RGB
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

from PIL import Image, ImageOps

from equigrad.files import atomic_write

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg")

# A playlist in a file of such a name would make FFmpeg open other files and addresses.
_TRUSTED = {
    "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,avi,matroska,webm,mpeg,mpegvideo",
    "protocol_whitelist": "file",
}
_CAMERA_DRIVERS = {"linux": "v4l2", "darwin": "avfoundation", "win32": "dshow"}
_MAX_PIXELS = 1 << 26  # of a frame
_DEFAULT_RATE = Fraction(25)


@dataclass(frozen=True, eq=False)
class Video:
    """An open video or camera.

    Args:
        name: in messages.
        container: PyAV's container.
    """

    name: str
    container: Any

    @property
    def rate(self) -> Fraction:
        """Frames a second."""
        return Fraction(self._stream.average_rate or _DEFAULT_RATE)

    @property
    def num_frames(self) -> int | None:
        """As the file says; None if it does not, or if a camera has no end."""
        return self._stream.frames or None

    def frames(self) -> Iterator[Image.Image]:
        """The frames in RGB, one after the other; OSError names the video if one cannot be decoded."""
        with _errors_of(self.name):
            for frame in self.container.decode(self._stream):
                if frame.width * frame.height > _MAX_PIXELS:
                    raise OSError(f"a frame of {frame.width} x {frame.height} pixels is too large")
                yield frame.to_image()

    @property
    def _stream(self) -> Any:
        return self.container.streams.video[0]


@contextmanager
def open_video(file: str | os.PathLike[str]) -> Iterator[Video]:
    """Open a video file; FileNotFoundError or OSError names it."""
    if not Path(file).is_file():
        raise FileNotFoundError(f"{file}: no such video")
    # An absolute path, so that no name is taken for an address.
    with _opened(str(Path(file).resolve()), str(file), options=_TRUSTED) as video:
        yield video


@contextmanager
def open_camera(device: str, driver: str | None = None) -> Iterator[Video]:
    """Open a camera.

    Args:
        device: as the system calls it, such as `/dev/video0` on Linux, `0` on macOS, `video=NAME` on Windows.
        driver: an input device of FFmpeg; None takes that of the system.
    """
    chosen = driver or _CAMERA_DRIVERS.get(sys.platform, "v4l2")
    with _opened(device, f"camera {device}", format=chosen) as video:
        yield video


class VideoWriter:
    """Writes pictures as the frames of an MP4 file."""

    def __init__(self, container: Any, rate: Fraction) -> None:
        self.container, self.rate = container, rate
        self.stream: Any = None

    def add(self, picture: Image.Image) -> None:
        """Add a frame. All frames have the size of the first; another picture is fitted into it."""
        if self.stream is None:
            self._start(picture)
        size = (self.stream.width, self.stream.height)
        fitted = picture if picture.size == size else ImageOps.pad(picture, size, color="white")
        self._encode(pyav().VideoFrame.from_image(fitted))

    def _start(self, picture: Image.Image) -> None:
        codec = "libx264" if "libx264" in pyav().codecs_available else "mpeg4"
        self.stream = self.container.add_stream(codec, rate=self.rate)
        # The chroma of the usual pixel format has half the size.
        self.stream.width, self.stream.height = (max(side // 2 * 2, 2) for side in picture.size)
        self.stream.pix_fmt = "yuv420p"

    def finish(self) -> None:
        """Write what the encoder holds back."""
        if self.stream is not None:
            self._encode(None)

    def _encode(self, frame: Any) -> None:
        for packet in self.stream.encode(frame):
            self.container.mux(packet)


@contextmanager
def video_writer(file: Path, rate: Fraction) -> Iterator[VideoWriter]:
    """A writer to a file that appears when it is complete."""
    with atomic_write(file) as stream, pyav().open(stream, "w", format="mp4") as container:
        writer = VideoWriter(container, rate)
        yield writer
        writer.finish()


@contextmanager
def _opened(address: str, name: str, **options: Any) -> Iterator[Video]:
    with _errors_of(name):
        container = pyav().open(address, **options)
    with container:
        if not container.streams.video:
            raise OSError(f"{name}: has no pictures")
        yield Video(name, container)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    try:
        yield
    except (pyav().FFmpegError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"{name}: cannot read the video ({reason})") from None


def pyav() -> ModuleType:
    """The library; ValueError says how to install it."""
    try:
        import av
    except ModuleNotFoundError:
        raise ValueError("videos and cameras need PyAV: pip install 'equigrad[video]'") from None
    return av
