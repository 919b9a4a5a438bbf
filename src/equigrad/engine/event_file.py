"""The numbers of a run as TensorBoard events.

`torch.utils.tensorboard` writes events in a thread, where a full disk ends in a traceback that nothing can catch. Here
the training itself writes them.
"""

import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.files import naming
from equigrad.run_files import parsed_number

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]

_PREFIX = "events.out.tfevents."


class EventFile:
    """A new event file in a folder.

    Args:
        folder: created if needed.
        purge_step: TensorBoard ignores what earlier files have for this step and later ones.
    """

    def __init__(self, folder: Path, purge_step: int) -> None:
        # Imported here because it is slow and only the first rank needs it.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        folder.mkdir(parents=True, exist_ok=True)
        # Files are read in the order of their names, which must not depend on a clock that was set back.
        numbers = [_number(file.name) for file in folder.glob(f"{_PREFIX}*")]
        number = max([int(time.time()), *(number + 1 for number in numbers)])
        self.file = folder / f"{_PREFIX}{number:010d}.{socket.gethostname()}.{os.getpid()}"
        self._stream = self.file.open("wb", buffering=0)
        self._records = RecordWriter(self._stream)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        restart = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=purge_step, session_log=restart))

    def write(self, step: int, scalars: Iterable[tuple[str, float]]) -> None:
        """Add the numbers of a step, by name."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _write(self, event: "Event") -> None:
        with naming(self.file):
            self._records.write(event.SerializeToString())


def _number(name: str) -> int:
    return parsed_number(name.removeprefix(_PREFIX).partition(".")[0]) or 0
