"""One error message when a rank fails, instead of a traceback of every rank that lost contact with it.

fabric = launch()                                # every rank writes its process id into the store of the process group
with one_voice():                                # one rank raises EngineError with the reason, the others exit
    …
"""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from equigrad.errors import EngineError, one_line

_SECONDS_TO_FIND_CAUSE = 3.0  # how long a rank looks for the rank that failed first
_SECONDS_TO_READ_STORE = 2.0  # how long rank 0, which may hold the store, waits for the others to read it
_SECONDS_TO_DIE = 0.5  # of a killed process, from its last connection to its end
_LOST_CONTACT = ("gloo", "nccl", "connection", "socket", "broken pipe", "timed out")


class AgreedError(EngineError):
    """An error that all ranks raise with the same message, so that the message need not name a rank."""


class _Process(NamedTuple):
    """The process of a rank."""

    host: str
    space: str  # PID namespace, because two containers may have the same host name
    id: int

    @classmethod
    def own(cls) -> Self:
        space = ""
        with suppress(OSError):
            space = os.readlink("/proc/self/ns/pid")
        return cls(socket.gethostname(), space, os.getpid())

    def has_died(self) -> bool:
        """Whether the process has ended or is a zombie; False for processes of other hosts, which cannot be seen."""
        if self[:2] != _Process.own()[:2]:
            return False
        try:
            if Path("/proc/self").exists():
                return Path(f"/proc/{self.id}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            os.kill(self.id, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
        return False


class _FailureBoard:
    """Where ranks look up each other's processes and report their failures: keys in the store of the process group."""

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        self.store, self.rank = PrefixStore("equigrad", store), rank
        self.store.set(f"process {rank}", json.dumps(_Process.own()))
        others = (other for other in range(world_size) if other != rank)
        self.others = {other: _Process(*json.loads(self.store.get(f"process {other}"))) for other in others}
        self.is_on_first_rank = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    def explain(self, error: Exception) -> Exception:
        """The error to raise on this rank; raises SystemExit(1) if another rank reports the failure."""
        if isinstance(error, AgreedError):
            text, reports = None, self._is_first_to_report()
        elif isinstance(error, ValueError | OSError):
            text, reports = f"rank {self.rank}: {one_line(error)}", self._is_first_to_report(has_failed=True)
        else:
            text, reports = self._find_cause(error)
        self._wait_for_readers()
        if not reports:
            raise SystemExit(1)
        return error if text is None else EngineError(text)

    def _find_cause(self, error: Exception) -> tuple[str | None, bool]:
        """The message for an error that another rank may have caused (None: its own), and whether to report it."""
        start = time.monotonic()
        while time.monotonic() < start + _SECONDS_TO_FIND_CAUSE:
            dead = [rank for rank, process in self.others.items() if process.has_died()]
            if 0 in dead and self.is_on_first_rank:  # the store is gone
                return self._died(0), all(rank > self.rank or rank in dead for rank in self.others)
            if self.is_on_first_rank and not dead and time.monotonic() < start + _SECONDS_TO_DIE:
                time.sleep(0.02)  # reading a store that is about to vanish makes torch print a trace
                continue
            if any(self.store.check([f"failed {rank}"]) for rank in self.others):
                return None, False  # that rank reports its failure itself
            if dead:
                return self._died(dead[0]), self._is_first_to_report()
            time.sleep(0.05)
        if any(word in str(error).lower() for word in _LOST_CONTACT):
            return f"rank {self.rank} lost contact with another rank: {one_line(error)}", self._is_first_to_report()
        return None, self._is_first_to_report(has_failed=True)

    def _wait_for_readers(self) -> None:
        """Keep rank 0 alive until the others have read the store, if rank 0 holds it."""
        if not self.is_on_first_rank or self.others.get(0, _Process.own()).has_died():
            return
        self.store.set(f"done {self.rank}", "")
        deadline = time.monotonic() + _SECONDS_TO_READ_STORE
        while self.rank == 0 and time.monotonic() < deadline:
            left = [rank for rank, process in self.others.items() if not process.has_died()]
            if all(self.store.check([f"done {rank}"]) for rank in left):
                return
            time.sleep(0.02)

    def _died(self, rank: int) -> str:
        process = self.others[rank]
        return f"rank {rank} (process {process.id} on {process.host}) has died; --resume continues without loss"

    def _is_first_to_report(self, *, has_failed: bool = False) -> bool:
        """Whether no other rank has reported yet; `has_failed` if this rank failed by itself."""
        if has_failed:
            self.store.set(f"failed {self.rank}", "")
        return bool(self.store.add("reports", 1) == 1)


_board: _FailureBoard | None = None


def announce(store: Store, rank: int, world_size: int) -> None:
    """Tell the other ranks which process this is, through the store of the process group; every rank must call."""
    global _board
    _board = _FailureBoard(store, rank, world_size)


@contextmanager
def one_voice() -> Iterator[None]:
    """When a rank fails or dies, one rank raises EngineError with its reason and the others exit with code 1."""
    try:
        yield
    except Exception as error:
        if _board is None:
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends other ranks before they can report
        explained = _board.explain(error)
        if explained is error:
            raise
        raise explained from error
