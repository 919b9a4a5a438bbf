"""Predictions of images, videos and cameras, one after the other, drawn, written and timed."""

import io
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path

from PIL import Image

from equigrad.analysis.pictures.side_by_side import side_by_side
from equigrad.commands.prediction.files import PredictionFiles
from equigrad.commands.prediction.inputs import ImageIds, Input
from equigrad.data.images.sources import ImageSource
from equigrad.data.video import Video, VideoWriter, open_camera, open_video, video_writer
from equigrad.errors import one_line
from equigrad.files import write_atomically
from equigrad.tasks.prediction import Prediction
from equigrad.tasks.progress import with_progress
from equigrad.tasks.trained_model import TrainedModel
from equigrad.terminal import printable


class PredictionLoop:
    """What one call of `equigrad predict` does, and how long it takes.

    Args:
        models: by heading; the first writes files, the others are drawn beside it.
        files: for what the first says.
        ids: ids of images in these files.
        batch_size: images at once.
        threshold: least score; None is that of the recipe.
    """

    def __init__(
        self,
        models: Mapping[str, TrainedModel],
        files: PredictionFiles,
        ids: ImageIds,
        *,
        batch_size: int,
        threshold: float | None,
    ) -> None:
        self.models, self.files, self.ids = models, files, ids
        self.batch_size, self.threshold = batch_size, threshold
        self.num_failed = self.num_done = 0
        self.model_seconds, self.start = 0.0, time.perf_counter()

    def predict_images(self, pairs: Sequence[tuple[Input, Path | None]]) -> None:
        """Predict image files, print a line for each, and draw those that have a picture."""
        waiting = self._readable(pairs)
        while batch := list(islice(waiting, self.batch_size)):
            predictions = self._predictions([source for _, _, source in batch])
            for (one, picture, _), predicted in zip(batch, predictions, strict=True):
                self.files.add(predicted[0], str(one.name), self.ids.of(one))
                if picture is not None:
                    _write_png(self._drawn(predicted), picture)
                print(printable(f"{one.path}: {self._line(predicted)}{_arrow(picture)}"), flush=True)

    def predict_video(self, one: Input, target: Path | None, num_frames: int | None) -> None:
        """Predict the frames of a video file, drawn as another video."""
        try:
            with open_video(one.path) as video:
                self._predict_frames(video, str(one.name), target, num_frames)
        except OSError as error:
            self._fail(error)

    def predict_camera(self, device: str, target: Path | None, num_frames: int | None) -> None:
        """Predict the frames of a camera until so many are done, or somebody interrupts it."""
        with open_camera(device) as video:
            self._predict_frames(video, "camera", target, num_frames)

    def report_speed(self) -> None:
        """Images a second: all in all, and without reading, drawing and writing."""
        if not self.num_done:
            return
        seconds = time.perf_counter() - self.start
        overall, alone = (self.num_done / max(spent, 1e-9) for spent in (seconds, self.model_seconds))
        images = f"{self.num_done:,} image{'s' if self.num_done > 1 else ''}"
        rates = f"{overall:.3g} images/s, the model alone {alone:.3g} images/s"
        print(f"{images} in {seconds:.1f} s: {rates}", file=sys.stderr, flush=True)

    def _predict_frames(self, video: Video, name: str, target: Path | None, num_frames: int | None) -> None:
        """Frames are called `NAME#0`, `NAME#1` and so on."""
        frames = islice((ImageSource(pixels=frame) for frame in video.frames()), num_frames)
        batches = iter(lambda: list(islice(frames, self.batch_size)), [])
        total = min((count for count in (num_frames, video.num_frames) if count is not None), default=None)
        number = 0
        with _writer(target, video) as writer:
            try:
                for batch, _ in with_progress(((batch, batch) for batch in batches), total, name=name):
                    for predicted in self._predictions(batch):
                        self.files.add(predicted[0], f"{name}#{number}", f"{name}#{number}")
                        if writer is not None:
                            writer.add(self._drawn(predicted))
                        number += 1
            except KeyboardInterrupt:
                if video.num_frames is not None:
                    raise
        print(printable(f"{video.name}: {number:,} frames{_arrow(target)}"), flush=True)

    def _readable(self, pairs: Sequence[tuple[Input, Path | None]]) -> Iterator[tuple[Input, Path | None, ImageSource]]:
        """The images that can be read; a line on stderr for each of the others."""
        for one, picture in pairs:
            try:
                pixels = ImageSource(one.path, archived=one.archived).read()
            except OSError as error:
                self._fail(error)
                continue
            yield one, picture, ImageSource(one.path, pixels)

    def _predictions(self, sources: Sequence[ImageSource]) -> list[tuple[Prediction, ...]]:
        """What every model says about each image."""
        start = time.perf_counter()
        of_models = [
            list(model.predict_sources(sources, batch_size=self.batch_size, threshold=self.threshold))
            for model in self.models.values()
        ]
        self.model_seconds += time.perf_counter() - start
        self.num_done += len(sources)
        return list(zip(*of_models, strict=True))

    def _drawn(self, predicted: Sequence[Prediction]) -> Image.Image:
        if len(predicted) == 1:
            return predicted[0].draw()
        return side_by_side(list(self.models), [one.draw() for one in predicted])

    def _line(self, predicted: Sequence[Prediction]) -> str:
        if len(predicted) == 1:
            return predicted[0].summary
        return " | ".join(f"{heading}: {one.summary}" for heading, one in zip(self.models, predicted, strict=True))

    def _fail(self, error: OSError) -> None:
        print(f"equigrad: {one_line(error)}", file=sys.stderr, flush=True)
        self.num_failed += 1


def _writer(target: Path | None, video: Video) -> AbstractContextManager[VideoWriter | None]:
    if target is None:
        return nullcontext()
    target.parent.mkdir(parents=True, exist_ok=True)
    return video_writer(target, video.rate)


def _write_png(picture: Image.Image, file: Path) -> None:
    content = io.BytesIO()
    picture.save(content, "PNG")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content.getvalue())


def _arrow(target: Path | None) -> str:
    return "" if target is None else f" -> {target}"
