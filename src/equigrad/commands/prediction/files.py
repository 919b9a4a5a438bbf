"""Predictions as files: COCO's result format of detections, and tables."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from equigrad.csv_cells import defused
from equigrad.files import atomic_write
from equigrad.tasks.detection.prediction import Detections
from equigrad.tasks.prediction import Prediction


class PredictionFiles:
    """Writes predictions as they are made; the files appear when all are written."""

    def __init__(self, json_stream: IO[bytes] | None, csv_stream: IO[bytes] | None) -> None:
        self.json_stream, self.csv_stream = json_stream, csv_stream
        self.num_entries = self.num_rows = 0

    def add(self, prediction: Prediction, name: str, image_id: int | str) -> None:
        """Add the prediction of an image.

        Args:
            prediction: what was found.
            name: name of the image, in the table.
            image_id: in the standard result format.
        """
        if self.json_stream is not None:
            assert isinstance(prediction, Detections), "the command refuses --json for other runs"
            for entry in prediction.to_coco(image_id):
                text = json.dumps(entry, allow_nan=False, separators=(",", ":"))
                self.json_stream.write(f"{',' if self.num_entries else '['}\n{text}".encode())
                self.num_entries += 1
        if self.csv_stream is not None:
            if not self.num_rows:
                self._write_row("image", *prediction.COLUMNS)
            for row in prediction.rows():
                self._write_row(name, *row)

    def finish(self) -> None:
        """Close the list."""
        if self.json_stream is not None:
            self.json_stream.write(b"\n]\n" if self.num_entries else b"[]\n")

    def _write_row(self, *cells: Any) -> None:
        assert self.csv_stream is not None
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            [defused(cell) if isinstance(cell, str) else cell for cell in cells]
        )
        self.csv_stream.write(line.getvalue().encode(errors="backslashreplace"))
        self.num_rows += 1


@contextmanager
def prediction_files(json_file: Path | None, csv_file: Path | None) -> Iterator[PredictionFiles]:
    """Write to those of the files that are given."""
    with ExitStack() as stack:
        streams = [None if file is None else stack.enter_context(_new_file(file)) for file in (json_file, csv_file)]
        files = PredictionFiles(*streams)
        yield files
        files.finish()


@contextmanager
def _new_file(file: Path) -> Iterator[IO[bytes]]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as stream:
        yield stream
