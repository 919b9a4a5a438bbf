"""SIGTERM and SIGINT as a wish to stop, which the loop grants between two steps."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """While it is entered, the first signal only sets `is_set`; a second Ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.is_set = False
        self._earlier: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            for number in (signal.SIGTERM, signal.SIGINT):
                self._earlier[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_set and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_set = True
