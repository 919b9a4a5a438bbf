"""Reading a hostile file in a process of its own, with its time and memory measured."""

import resource
import time
from pathlib import Path

from quick_processes import quick_context

_SECONDS = 5.0  # of CPU, so that a busy machine does not matter
_BYTES = 500 << 20


def refusal(function, *arguments):
    """The one line with which a function refuses its input, within seconds and without taking much memory."""
    receiver, sender = quick_context().Pipe(duplex=False)
    process = quick_context().Process(target=_measured, args=(sender, function, arguments))
    process.start()
    sender.close()
    kind, text, seconds, grown = receiver.recv()
    process.join()
    assert kind == "refused", f"{kind}: {text}"
    assert "\n" not in text
    assert grown < _BYTES
    assert seconds < _SECONDS
    return text


def _measured(sender, function, arguments):
    before = _status("VmHWM")
    limit = _status("VmSize") + 2 * _BYTES  # a test that fails must not take the machine with it
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = time.process_time()
    try:
        kind, text = "accepted", repr(function(*arguments))[:200]
    except (ValueError, OSError) as error:
        kind, text = "refused", str(error)
    except BaseException as error:
        kind, text = "failed", f"{type(error).__name__}: {error}"[:500]
    sender.send((kind, text, time.process_time() - start, _status("VmHWM") - before))


def _status(field):
    """A field of this process's status in bytes: its largest resident size, or its virtual size."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))
