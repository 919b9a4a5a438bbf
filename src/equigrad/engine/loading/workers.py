"""Worker processes of data loaders: which signals they obey, and one line for the user when one of them dies."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from equigrad.errors import EngineError, one_line


def leave_signals_to_the_training(worker: int) -> None:
    """Ctrl-C and a scheduler's SIGTERM reach workers too, whose death would break the step the training finishes.

    The training itself ends its workers by SIGTERM, so that one is obeyed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sys.excepthook = _leave_lost_connections_out
    threading.Thread(target=_exit_when_the_training_says_so, daemon=True).start()


def _leave_lost_connections_out(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A worker whose training is gone has nothing to add."""
    if not isinstance(error, ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)


def _exit_when_the_training_says_so() -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)


@contextmanager
def naming_dead_workers() -> Iterator[None]:
    """The death of a worker inside becomes one line.

    Torch raises it in a signal handler, wherever the training happens to be, again for each worker that ends. Another
    error may come of it, such as that of a file that was being written.
    """
    try:
        yield
    except Exception as error:
        death = _death_of_worker(error)
        if death is None:
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # one is enough
        raise EngineError(f"{death}; if memory ran out, use fewer workers (--workers); --resume goes on") from error


def _death_of_worker(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker"):
            return one_line(error).rstrip(".")
        error = error.__cause__ or error.__context__
    return None
