"""How do several processes train one model? Each has a share of the batch, and gradients are averaged.

>>> alone = Ranks()
>>> alone.rank, alone.world, alone.first
(0, 1, True)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["Ranks", "joined", "leave"]


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; alone, nothing is communicated.

    Attributes:
        rank: this one's number.
        world: how many there are.
        local: its number on this machine, which is that of its GPU.
    """

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Whether this one writes files and speaks to the reader."""
        return self.rank == 0

    def average(self, values: Any) -> Any:
        """Replace a tensor by its mean over all ranks; returns it."""
        if self.world > 1:
            import torch.distributed as dist

            dist.all_reduce(values)
            values /= self.world
        return values

    def anyone(self, told: bool, where: Any) -> bool:
        """Whether one of the ranks was told so: what they have to do together, although they are told apart."""
        import torch

        return bool(self.average(torch.tensor(float(told), device=where)) > 0)

    def from_first(self, values: Any) -> Any:
        """Replace a tensor by that of the first rank; returns it."""
        if self.world > 1:
            import torch.distributed as dist

            dist.broadcast(values, 0)
        return values

    def share(self, values: Any, work: Any) -> Any:
        """`work` of [n, ...], of which each rank does an equal part; returns all of it, [n, ...].

        Where the ranks do not divide n, some rows at the end are done by more than one of them.
        """
        if self.world == 1:
            return work(values)
        import torch.distributed as dist

        count, each = len(values), -(-len(values) // self.world)
        places = [min(rank * each, max(count - each, 0)) for rank in range(self.world)]
        own = work(values[places[self.rank] :][:each]).contiguous()
        parts = own.new_empty(self.world, *own.shape)
        dist.all_gather(list(parts.unbind(0)), own)
        whole = own.new_empty(count, *own.shape[1:])
        for place, part in zip(places, parts, strict=True):
            whole[place : place + len(part)] = part
        return whole

    def wait(self) -> None:
        """Until all are here."""
        if self.world > 1:
            import torch.distributed as dist

            dist.barrier()


@contextmanager
def joined(backend: str = "") -> Iterator[Ranks]:
    """Join the processes that torchrun started, and leave them at the end; without torchrun, be alone.

    Args:
        backend: "nccl" or "gloo"; default: the first where there are GPUs enough.

    Raises:
        ValueError: fewer GPUs than ranks on this machine.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    import torch
    import torch.distributed as dist

    ranks = Ranks(int(os.environ["RANK"]), world, int(os.environ.get("LOCAL_RANK", "0")))
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    if backend == "nccl":
        here = torch.cuda.device_count()
        if ranks.local >= here:
            raise ValueError(
                f"torchrun started rank {ranks.local} on this machine, which has {here} GPUs: start fewer."
            )
        torch.cuda.set_device(ranks.local)
    dist.init_process_group(backend)
    try:
        yield ranks
    finally:
        dist.destroy_process_group()


def leave(code: int) -> NoReturn:
    """End a process that was one of several, after all is written, without Python's own way of ending.

    Threads of gloo can outlive their group, and Python's end under them now and then aborts the process; torchrun then
    calls a run failed whose results are all there.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
