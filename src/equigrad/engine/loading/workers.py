"""Worker processes of data loaders: which signals they obey, and one line for the user when one of them dies."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from equigrad.errors import EngineError, one_line

SECONDS_BETWEEN_LOOKS = 5.0
"""How long a worker may outlive a training that was killed."""


def leave_signals_to_the_training(worker: int, *, training: int) -> None:
    """Make a worker ignore Ctrl-C and a scheduler's SIGTERM: the training still needs it to finish the current step.

    SIGTERM of the training itself, which ends its workers that way, is obeyed. The worker ends soon after the training
    does: torch's own check takes whatever is the parent by then for the training.

    Args:
        worker: its number, which torch passes.
        training: process id.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sys.excepthook = _leave_lost_connections_out
    threading.Thread(target=_exit_when_the_training_says_so, args=(training,), daemon=True).start()


def _leave_lost_connections_out(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print no traceback when the training has ended and the worker lost its connection."""
    if not isinstance(error, ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)


def _exit_when_the_training_says_so(training: int) -> None:
    """Wait for a SIGTERM of the training, or for its end."""
    while os.getppid() == training:
        received = signal.sigtimedwait({signal.SIGTERM}, SECONDS_BETWEEN_LOOKS)
        if received is not None and received.si_pid == training:
            break
    os._exit(0)


@contextmanager
def naming_dead_workers() -> Iterator[None]:
    """Turn the death of a worker into an EngineError of one line.

    Torch raises an error in a signal handler, at any point of the training and once for each worker that ends. It may
    cause another error, such as one of a file that was being written.
    """
    try:
        yield
    except Exception as error:
        death = _death_of_worker(error)
        if death is None:
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # no errors for the workers that end after it
        raise EngineError(f"{death}; if memory ran out, use fewer workers (--workers); --resume continues") from error


def _death_of_worker(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker"):
            return one_line(error).rstrip(".")
        error = error.__cause__ or error.__context__
    return None
