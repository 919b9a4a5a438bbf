"""One process or many: starting Fabric, and the few things ranks must agree on.

equigrad train …                                                      # one process
torchrun --nnodes 2 --nproc-per-node 8 … -m equigrad train …          # the same code, 16 processes
"""

import atexit
import os
import time
import uuid
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]
from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from equigrad.engine.failures import announce
from equigrad.engine.random_state import seed_all
from equigrad.errors import EngineError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Precision = Literal["32", "bf16", "fp16"]
Device = Literal["auto", "cpu", "cuda", "mps"]


def launch(*, precision: Precision = "32", seed: int = 0, accelerator: Device = "auto") -> "Fabric":
    """Join the other processes, if any, and seed this one; call it before models and samplers are built.

    Args:
        precision: "32", or autocast to "bf16" or "fp16"; with "fp16" the loss is scaled.
        seed: the same on all ranks, so that they build the same model.
        accelerator: "cpu", "cuda", "mps" or the best there is.
    """
    # Imported here because it takes seconds, which a command that does not train should not spend.
    from lightning.fabric import Fabric

    from equigrad.engine.autocast import precision_plugin

    world_size = int(os.environ.get("WORLD_SIZE", 1))
    num_local = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    chosen = best_accelerator() if accelerator == "auto" else accelerator
    if chosen not in available_accelerators():
        raise EngineError(f"there is no {chosen} device here, only {', '.join(available_accelerators())}")
    fabric = Fabric(
        accelerator=chosen,
        devices=num_local,
        num_nodes=world_size // num_local,
        strategy="ddp" if world_size > 1 else "auto",
        plugins=precision_plugin(precision, chosen),
    )
    if world_size > 1:
        join("nccl" if chosen == "cuda" else "gloo")
    fabric.launch()
    seed_all(seed)
    return fabric


def join(backend: str) -> None:
    """Join the process group that the environment names, unless this process has one."""
    if dist.is_initialized():
        return
    store, rank, world_size = next(rendezvous("env://"))
    store = unused_part(store, rank, world_size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    atexit.register(leave)
    announce(store, rank, world_size)


def unused_part(store: Store, rank: int, world_size: int) -> Store:
    """A part of a store that no earlier process has written to; every rank must call.

    torchrun may keep its store when it restarts the ranks, and a new rank would read the address of a dead one there.
    The number of restarts cannot name the part, because nodes count it differently. So rank 0 makes up a name. The
    others ask for it under keys of their own, which rank 0 of an earlier attempt cannot have answered.
    """
    name = uuid.uuid4().hex
    if rank > 0:
        store.set(f"rank {rank} asks", name)
        name = store.get(f"answer to {name}").decode()
        store.set(f"{name} is known to {rank}", "")
    deadline = time.monotonic() + default_pg_timeout.total_seconds()
    others = set(range(1, world_size)) if rank == 0 else set()
    while others := {other for other in others if not store.check([f"{name} is known to {other}"])}:
        for other in others:
            if store.check([f"rank {other} asks"]):
                store.set(f"answer to {store.get(f'rank {other} asks').decode()}", name)
        if time.monotonic() > deadline:
            raise EngineError(f"rank {min(others)} has not joined within {default_pg_timeout}")
        time.sleep(0.01)
    return PrefixStore(name, store)


def join_ranks() -> torch.device:
    """Join the other processes that torchrun has started, if any, for work other than training; returns the device."""
    chosen = best_accelerator()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        join("nccl" if chosen == "cuda" else "gloo")
        if chosen == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            return torch.device("cuda", torch.cuda.current_device())
    return torch.device(chosen)


def ranks() -> tuple[int, int]:
    """The rank of this process and the number of ranks; 0 and 1 for a single process."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def wait_for_ranks() -> None:
    """Wait until every rank is here."""
    if ranks()[1] > 1:
        dist.barrier()


def job_name() -> str | None:
    """The job id of torchrun, which stays the same after a restart; None for a single process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    name, master = os.environ["TORCHELASTIC_RUN_ID"], f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if name != "none":
        return name
    # Without --standalone or --rdzv-id a job has no id. On one node torchrun itself keeps jobs apart.
    return f"{os.getppid()}" if os.environ.get("GROUP_WORLD_SIZE") == "1" else master


def leave() -> None:
    """End the process group, if it is still there."""
    if dist.is_initialized():
        dist.destroy_process_group()


def available_accelerators() -> list[Device]:
    """What this machine has, the best first."""
    has_mps = torch.backends.mps.is_available()
    return [*(["cuda"] if torch.cuda.is_available() else []), *(["mps"] if has_mps else []), "cpu"]  # type: ignore[list-item]


def best_accelerator() -> Device:
    """A GPU if there is one."""
    return available_accelerators()[0]


def any_rank(fabric: "Fabric", *flags: bool) -> list[bool]:
    """For each flag, whether it is set on any rank; every rank must call."""
    if fabric.world_size == 1:
        return list(flags)
    merged = torch.tensor(flags, dtype=torch.uint8, device=fabric.device)
    dist.all_reduce(merged, op=dist.ReduceOp.MAX)
    return [bool(flag) for flag in merged.tolist()]


def mean_over_ranks(fabric: "Fabric", values: dict[str, float]) -> dict[str, float]:
    """Means of numbers that every rank has under the same names."""
    if fabric.world_size == 1 or not values:
        return values
    merged = torch.tensor(list(values.values()), dtype=torch.float64, device=fabric.device)
    dist.all_reduce(merged)
    return dict(zip(values, (merged / fabric.world_size).tolist(), strict=True))


def gather_objects(value: Any) -> list[Any]:
    """One value of every rank, on every rank."""
    _, world_size = ranks()
    if world_size == 1:
        return [value]
    values: list[Any] = [None] * world_size
    dist.all_gather_object(values, value)
    return values


def from_first_rank(value: Any) -> Any:
    """The first rank's value, on every rank."""
    return gather_objects(value)[0]


def share_buffers(fabric: "Fabric", model: nn.Module) -> None:
    """Give every rank the buffers of the first, such as the running means of batch norms."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)


def average_batch_norms(fabric: "Fabric", model: nn.Module) -> None:
    """Give every rank the means over ranks of the running means and variances of batch norms."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    running = [each for norm in norms for each in (norm.running_mean, norm.running_var) if each is not None]
    if fabric.world_size == 1 or not running:
        return
    joined = torch.cat([each.flatten() for each in running])
    dist.all_reduce(joined)
    joined /= fabric.world_size
    for each, mean in zip(running, torch.split(joined, [each.numel() for each in running]), strict=True):
        each.copy_(mean)
