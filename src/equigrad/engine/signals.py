"""SIGTERM and SIGINT as a request to stop, which the training loop checks after every step."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_END = b"\0"


class StopRequest:
    """A context in which the first signal only sets `is_set`; a second Ctrl-C interrupts at once.

    Args:
        acknowledge: called once, as soon as the first signal arrives. Python runs a signal handler only between two
            operations, and a backward pass is one operation. So a thread calls it, which the signal wakes.
    """

    def __init__(self, acknowledge: Callable[[], None] = lambda: None) -> None:
        self.is_set = False
        self.acknowledge = acknowledge
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            self._watch()
            for number in _SIGNALS:
                self._open.callback(signal.signal, number, signal.signal(number, self._handle))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_set and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_set = True

    def _watch(self) -> None:
        """Start the thread that calls `acknowledge`; it ends with the context."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)  # as `set_wakeup_fd` demands
        thread = threading.Thread(target=self._acknowledge_signal, args=(reading,), daemon=True)
        self._open.callback(os.close, reading)
        self._open.callback(thread.join)
        self._open.callback(os.close, writing)
        # Not the end of the pipe: workers that were forked meanwhile keep it open.
        self._open.callback(os.write, writing, _END)
        self._open.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(writing, warn_on_full_buffer=False))
        thread.start()

    def _acknowledge_signal(self, reading: int) -> None:
        is_acknowledged = False
        while (byte := os.read(reading, 1)) != _END:
            if byte[0] in _SIGNALS and not is_acknowledged:
                is_acknowledged = True
                self.acknowledge()
