"""One process or many: starting Fabric, and the few things ranks must agree on.

equigrad train …                                                      # one process
torchrun --nnodes 2 --nproc-per-node 8 … -m equigrad train …          # the same code, 16 processes
"""

import atexit
import os
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from equigrad.engine.failures import announce
from equigrad.engine.random_state import seed_all
from equigrad.errors import EngineError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Precision = Literal["32", "bf16", "fp16"]
Device = Literal["auto", "cpu", "cuda", "mps"]


def launch(
    *, precision: Precision = "32", seed: int = 0, accelerator: Device = "auto", find_unused_parameters: bool = False
) -> "Fabric":
    """Join the other processes, if any, and seed this one; call it before models and samplers are built.

    Args:
        precision: "32", or autocast to "bf16" or "fp16"; with "fp16" the loss is scaled.
        seed: the same on all ranks, so that they build the same model.
        accelerator: "cpu", "cuda", "mps" or the best there is.
        find_unused_parameters: for models that leave out parameters in some steps, in several processes.
    """
    # Imported here because it takes seconds, which a command that does not train should not spend.
    from lightning.fabric import Fabric
    from lightning.fabric.strategies.ddp import DDPStrategy

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
        strategy=DDPStrategy(find_unused_parameters=find_unused_parameters) if world_size > 1 else "auto",
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
    # torchrun may keep its store when it restarts the ranks. Without a name of its own, a new rank would find the
    # address of the dead one there.
    store = PrefixStore(f"attempt {restart_count()}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)
    atexit.register(leave)
    announce(store, rank, world_size)


def restart_count() -> int:
    """How often torchrun has restarted the ranks of this job."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def job_name() -> str | None:
    """What torchrun calls this job, the same after a restart; None for a process on its own."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    name, master = os.environ["TORCHELASTIC_RUN_ID"], f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if name != "none":
        return name
    # Without --standalone or --rdzv-id it has no name. On one node torchrun itself tells jobs apart.
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


def gather_objects(fabric: "Fabric", value: Any) -> list[Any]:
    """One value of every rank, on every rank."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    dist.all_gather_object(values, value)
    return values


def from_first_rank(fabric: "Fabric", value: Any) -> Any:
    """The first rank's value, on every rank."""
    return gather_objects(fabric, value)[0]


def share_buffers(fabric: "Fabric", model: nn.Module) -> None:
    """Give every rank the buffers of the first, such as the running means of batch norms."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)
