"""Which gradients over rows do the kernels for Hopper take, with which blocks?

>>> ring_blocks("layer_norm", 16_384)[0]
{'PARTS': 1, 'BLOCK': 4096, 'SLOTS': 12, 'PER_SM': 1, 'num_warps': 16}
>>> ring_blocks("softmax", 1024)
[]
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .blocks import chained

if TYPE_CHECKING:
    import torch

__all__ = ["on_hopper", "ring_blocks", "whole_lines"]

_SHARED_BYTES = 227 * 1024  # that a program may have on Hopper, and on Blackwell for servers
_ALIGNED = 16  # bytes of a copy; also the numbers by which Triton asks whether something can be divided
# Of rows of so many columns: programs that share them, columns of a block, blocks on their way or in use, programs a
# multiprocessor, warps. 16 KB of x and of dy are a block of 4,096; w lies beside them.
_BLOCKS: dict[str, dict[int, tuple[tuple[int, int, int, int, int], ...]]] = {
    "rms_norm": {
        4096: ((1, 4096, 6, 2, 8), (1, 4096, 12, 1, 8), (1, 4096, 6, 1, 16)),
        8192: ((1, 8192, 6, 1, 16), (1, 4096, 6, 2, 8), (1, 4096, 12, 1, 8)),
        16_384: (
            (1, 4096, 12, 1, 16), (1, 8192, 6, 1, 16), (1, 4096, 12, 1, 8), (1, 4096, 8, 1, 16), (1, 8192, 6, 1, 32),
        ),
        32_768: ((1, 4096, 10, 1, 16), (1, 2048, 20, 1, 8), (2, 8192, 5, 1, 32), (2, 4096, 10, 1, 16)),
    },
    "layer_norm": {
        4096: ((1, 4096, 6, 2, 8), (1, 4096, 4, 2, 8), (1, 4096, 6, 1, 16)),
        8192: ((1, 8192, 6, 1, 16), (1, 4096, 12, 1, 8), (1, 8192, 3, 1, 16)),
        16_384: ((1, 4096, 12, 1, 16), (1, 8192, 6, 1, 16), (1, 4096, 12, 1, 8), (2, 4096, 12, 1, 16)),
        32_768: ((2, 8192, 5, 1, 32), (2, 4096, 10, 1, 16), (2, 2048, 20, 1, 8)),
    },
    "softmax": {
        16_384: ((1, 4096, 12, 1, 16), (1, 8192, 3, 2, 16), (1, 4096, 6, 2, 8), (1, 8192, 6, 1, 16)),
        32_768: ((1, 4096, 12, 1, 16), (1, 8192, 6, 1, 16), (1, 8192, 6, 1, 32), (1, 4096, 12, 1, 8)),
    },
}  # fmt: skip


def on_hopper(*rows: torch.Tensor) -> bool:
    """Whether a kernel with a ring takes rows: on Hopper or a later chip with as much shared memory.

    Args:
        rows: matrices, and parameters.
    """
    import torch

    device = rows[0].device
    if not chained(device) or not whole_lines(*rows):
        return False
    try:
        from . import triton_ring_hopper  # noqa: F401 - only to see whether this Triton has Gluon
    except ImportError:
        return False
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin >= _SHARED_BYTES


def whole_lines(*rows: torch.Tensor) -> bool:
    """Whether all are of 16 bits and can be copied 16 bytes at a time.

    >>> import torch
    >>> whole_lines(torch.zeros(2, 32).half()), whole_lines(torch.zeros(2, 33).half()[:, :32])
    (True, False)
    """
    return all(
        each.element_size() == 2 and not each.data_ptr() % _ALIGNED and not each.shape[-1] % _ALIGNED
        and each.stride(-1) == 1 and not any(step % _ALIGNED for step in each.stride()[:-1])
        for each in rows
    )  # fmt: skip


@functools.cache
def ring_blocks(kind: str, cols: int) -> list[dict[str, Any]]:
    """Return what the kernel can be launched with, the most likely choice first; nothing for rows too short or long.

    Args:
        kind: "rms_norm", "layer_norm" or "softmax".
        cols: of a row, a power of two.
    """
    names = ("PARTS", "BLOCK", "SLOTS", "PER_SM", "num_warps")
    return [dict(zip(names, each, strict=True)) for each in _BLOCKS[kind].get(cols, ())]
