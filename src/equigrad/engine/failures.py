"""When a rank fails, the user reads one line that names it, and no traceback of the ranks that lost contact with it.

fabric = launch()                                # every rank says who it is, in the store that torchrun keeps
with one_voice():                                # the rank that speaks raises EngineError, the others exit
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

_SECONDS_TO_FIND_OUT = 3.0
_SECONDS_TO_PART = 2.0
_SECONDS_TO_DIE = 0.5  # of a killed process, from its last connection to its end
_BROKEN_CONTACT = ("gloo", "nccl", "connection", "socket", "broken pipe", "timed out")


class AgreedError(EngineError):
    """An error that every rank raises alike, so that none of them needs to be named."""


class _Process(NamedTuple):
    """The process of a rank."""

    host: str
    space: str  # where its id has a meaning: two containers may have one host name
    id: int

    @classmethod
    def own(cls) -> Self:
        space = ""
        with suppress(OSError):
            space = os.readlink("/proc/self/ns/pid")
        return cls(socket.gethostname(), space, os.getpid())

    def has_died(self) -> bool:
        """Whether it is known to be gone, or waits to be reaped by its parent; of other hosts nothing is known."""
        if self[:2] != _Process.own()[:2]:
            return False
        try:
            if Path("/proc/self").exists():
                return Path(f"/proc/{self.id}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            os.kill(self.id, 0)
        except (FileNotFoundError, ProcessLookupError):
            return True
        return False


class _Board:
    """What the ranks know of each other, and what they have written about their end, where all can read it."""

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        self.store, self.rank = PrefixStore("equigrad", store), rank
        self.store.set(f"process {rank}", json.dumps(_Process.own()))
        others = (other for other in range(world_size) if other != rank)
        self.others = {other: _Process(*json.loads(self.store.get(f"process {other}"))) for other in others}
        self.is_on_first_rank = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

    def explain(self, error: Exception) -> Exception:
        """The error to raise here; SystemExit(1) if another rank tells the user."""
        if isinstance(error, AgreedError):
            text, speaks = None, self._speaks()
        elif isinstance(error, ValueError | OSError):
            text, speaks = f"rank {self.rank}: {one_line(error)}", self._speaks(has_failed=True)
        else:
            text, speaks = self._consequence(error)
        self._part()
        if not speaks:
            raise SystemExit(1)
        return error if text is None else EngineError(text)

    def _consequence(self, error: Exception) -> tuple[str | None, bool]:
        """What to say about an error that another rank may have caused, and whether to say it."""
        start = time.monotonic()
        while time.monotonic() < start + _SECONDS_TO_FIND_OUT:
            dead = [rank for rank, process in self.others.items() if process.has_died()]
            if 0 in dead and self.is_on_first_rank:  # nothing more can be read or written
                return self._died(0), all(rank > self.rank or rank in dead for rank in self.others)
            if self.is_on_first_rank and not dead and time.monotonic() < start + _SECONDS_TO_DIE:
                time.sleep(0.02)  # torch would print a trace of its own for a store that is about to vanish
                continue
            if any(self.store.check([f"failed {rank}"]) for rank in self.others):
                return None, False  # that rank has said why
            if dead:
                return self._died(dead[0]), self._speaks()
            time.sleep(0.05)
        if any(word in str(error).lower() for word in _BROKEN_CONTACT):
            return f"rank {self.rank} lost contact with another rank: {one_line(error)}", self._speaks()
        return None, self._speaks(has_failed=True)

    def _part(self) -> None:
        """Before the first rank ends, and the store with it, the others get a moment to read there what happened."""
        if not self.is_on_first_rank or self.others.get(0, _Process.own()).has_died():
            return
        self.store.set(f"parted {self.rank}", "")
        deadline = time.monotonic() + _SECONDS_TO_PART
        while self.rank == 0 and time.monotonic() < deadline:
            left = [rank for rank, process in self.others.items() if not process.has_died()]
            if all(self.store.check([f"parted {rank}"]) for rank in left):
                return
            time.sleep(0.02)

    def _died(self, rank: int) -> str:
        process = self.others[rank]
        return f"rank {rank} (process {process.id} on {process.host}) has died; --resume goes on without loss"

    def _speaks(self, *, has_failed: bool = False) -> bool:
        """Whether this rank is the first that has something to say; `has_failed` of its own accord."""
        if has_failed:
            self.store.set(f"failed {self.rank}", "")
        return bool(self.store.add("speakers", 1) == 1)


_board: _Board | None = None


def announce(store: Store, rank: int, world_size: int) -> None:
    """Let the other ranks know this process; all ranks call it with the store of their process group."""
    global _board
    _board = _Board(store, rank, world_size)


@contextmanager
def one_voice() -> Iterator[None]:
    """When a rank fails or dies, one rank raises EngineError with its reason and the others exit with code 1."""
    try:
        yield
    except Exception as error:
        if _board is None:
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the other ranks, before they could say why
        explained = _board.explain(error)
        if explained is error:
            raise
        raise explained from error
