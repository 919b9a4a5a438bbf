"""The random numbers of Python, NumPy and PyTorch: seeding, saving and restoring them together.

Of NumPy it is the legacy global generator, because transforms of other libraries use that one.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def seed_all(seed: int) -> None:
    """Seed every generator of this process, those of accelerators included."""
    seed_cpu(seed)
    torch.manual_seed(seed)


def seed_cpu(seed: int) -> None:
    """Seed the generators that data loading uses; unlike `seed_all` it never touches an accelerator."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.default_generator.manual_seed(seed)


def mixed_seed(*numbers: int) -> int:
    """A seed that depends on all of the numbers, in 63 bits."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def capture() -> dict[str, Any]:
    """State of every generator, of tensors and plain values only, as `torch.load(weights_only=True)` demands."""
    version, internal, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    return {
        "python": [version, list(internal), gauss],
        "numpy": [torch.from_numpy(np.asarray(keys).astype(np.int64)), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
    }


def restore(state: dict[str, Any]) -> None:
    """Bring every generator back to a captured state."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def preserved() -> Iterator[None]:
    """Restore all generators at the end, so that what happens inside does not change later random numbers."""
    # Not `capture`, whose plain values are slow to make: this happens at every step that reads its own data.
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state_all(cuda)
