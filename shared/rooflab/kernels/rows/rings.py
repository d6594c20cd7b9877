"""Which rows do the kernels for Hopper take, with which blocks, and how are these launched?

>>> ring_blocks("layer_norm_backward", 16_384)[0]
{'PARTS': 1, 'BLOCK': 4096, 'SLOTS': 12, 'PER_SM': 1, 'num_warps': 16}
>>> ring_blocks("softmax", 32_768)[0]
{'BLOCK': 8192, 'SLOTS': 12, 'PER_SM': 1, 'num_warps': 16}
>>> ring_blocks("softmax", 1024)
[]
>>> exchange_blocks("layer_norm_backward", 32_768)[0]
{'PARTS': 4, 'LEAD': 2, 'BLOCK': 8192, 'SLOTS': 6, 'PER_SM': 1, 'num_warps': 16}
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..launching import launch
from .blocks import MOST, chained, evenly, processors

if TYPE_CHECKING:
    import torch

__all__ = ["exchange_blocks", "forward_choices", "launch_ring", "on_hopper", "ring_blocks", "whole_lines"]

_SHARED_BYTES = 227 * 1024  # that a program may have on Hopper, and on Blackwell for servers
_ALIGNED = 16  # bytes of a copy; also the numbers by which Triton asks whether something can be divided
# Of rows of so many columns: programs that share them, columns of a block, blocks on their way or in use, programs a
# multiprocessor, warps. 16 KB of x and dy are a block of 4,096; w lies beside them.
_BACKWARD: dict[str, dict[int, tuple[tuple[int, ...], ...]]] = {
    "rms_norm_backward": {
        4096: ((1, 4096, 6, 2, 8), (1, 4096, 12, 1, 8), (1, 4096, 6, 1, 16)),
        8192: ((1, 8192, 6, 1, 16), (1, 4096, 6, 2, 8), (1, 4096, 12, 1, 8)),
        16_384: (
            (1, 4096, 12, 1, 16), (1, 8192, 6, 1, 16), (1, 4096, 12, 1, 8), (1, 4096, 8, 1, 16), (1, 8192, 6, 1, 32),
        ),
        32_768: ((1, 4096, 10, 1, 16), (1, 2048, 20, 1, 8), (2, 8192, 5, 1, 32), (2, 4096, 10, 1, 16)),
    },
    "layer_norm_backward": {
        4096: ((1, 4096, 6, 2, 8), (1, 4096, 4, 2, 8), (1, 4096, 6, 1, 16)),
        8192: ((1, 8192, 6, 1, 16), (1, 4096, 12, 1, 8), (1, 8192, 3, 1, 16)),
        16_384: ((1, 4096, 12, 1, 16), (1, 8192, 6, 1, 16), (1, 4096, 12, 1, 8), (2, 4096, 12, 1, 16)),
        32_768: ((2, 8192, 5, 1, 32), (2, 4096, 10, 1, 16), (2, 2048, 20, 1, 8)),
    },
    "softmax_backward": {
        16_384: ((1, 4096, 12, 1, 16), (1, 8192, 3, 2, 16), (1, 4096, 6, 2, 8), (1, 8192, 6, 1, 16)),
        32_768: ((1, 4096, 12, 1, 16), (1, 8192, 6, 1, 16), (1, 8192, 6, 1, 32), (1, 4096, 12, 1, 8)),
    },
}  # fmt: skip
# The same where programs exchange sums; behind PARTS, how many rows ahead. A program has 8,192 columns, or 4,096; w is
# in registers.
_EXCHANGE: dict[int, tuple[tuple[int, ...], ...]] = {
    16_384: ((2, 2, 8192, 6, 1, 16), (2, 2, 8192, 6, 1, 8), (4, 2, 4096, 6, 2, 8), (4, 2, 4096, 12, 1, 8)),
    32_768: ((4, 2, 8192, 6, 1, 16), (4, 2, 8192, 6, 1, 8), (8, 2, 4096, 6, 2, 8), (8, 2, 4096, 12, 1, 8)),
}
# The same without programs that share a row. 8 KB of x are a block of 4,096; w and b lie beside them. A row in fp32
# takes half of the registers of its threads.
_FORWARD: dict[str, dict[int, tuple[tuple[int, ...], ...]]] = {
    "softmax": {
        8192: ((8192, 6, 2, 8), (8192, 3, 4, 4), (8192, 4, 3, 8)),
        16_384: ((8192, 6, 2, 8), (8192, 6, 2, 16), (16_384, 3, 2, 8), (8192, 12, 1, 16)),
        32_768: ((8192, 12, 1, 16), (8192, 12, 1, 32), (32_768, 3, 1, 16), (16_384, 6, 1, 16)),
    },
    "rms_norm": {
        8192: ((8192, 6, 2, 8), (8192, 2, 4, 4), (8192, 3, 3, 8)),
        16_384: ((8192, 5, 2, 8), (8192, 5, 2, 16), (16_384, 2, 2, 8), (8192, 12, 1, 16)),
        32_768: ((8192, 10, 1, 16), (8192, 10, 1, 32), (32_768, 2, 1, 16), (16_384, 5, 1, 16)),
    },
    "layer_norm": {
        8192: ((8192, 5, 2, 8), (8192, 2, 3, 8)),
        16_384: ((8192, 3, 2, 8), (4096, 6, 2, 8), (16_384, 5, 1, 16), (8192, 10, 1, 16)),
        32_768: ((8192, 6, 1, 16), (8192, 6, 1, 32), (16_384, 3, 1, 16)),
    },
}  # fmt: skip


def on_hopper(*rows: torch.Tensor) -> bool:
    """Whether the kernels in Gluon take rows: on Hopper or a later chip with as much shared memory.

    Args:
        rows: matrices, and parameters.
    """
    return whole_lines(*rows) and _able(rows[0].device)


@functools.cache
def _able(device: torch.device) -> bool:
    """Whether a device can run them; asked at every launch, so that it is found out once."""
    import torch

    if not chained(device):
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
        kind: "rms_norm", "layer_norm" or "softmax", or one of these with "_backward".
        cols: of a row, a power of two.
    """
    names = ("PARTS", "BLOCK", "SLOTS", "PER_SM", "num_warps")
    found = (_BACKWARD | _FORWARD).get(kind, {}).get(cols, ())
    return [dict(zip(names[-len(each) :], each, strict=True)) for each in found]


@functools.cache
def exchange_blocks(kind: str, cols: int) -> list[dict[str, Any]]:
    """Return what the kernel whose programs exchange sums can be launched with; nothing but for norms backward.

    Args:
        kind: as above.
        cols: as above.
    """
    if kind not in ("rms_norm_backward", "layer_norm_backward"):
        return []
    names = ("PARTS", "LEAD", "BLOCK", "SLOTS", "PER_SM", "num_warps")
    return [dict(zip(names, each, strict=True)) for each in _EXCHANGE.get(cols, ())]


def forward_choices(
    kind: str, cols: int, others: list[dict[str, Any]], *rows: torch.Tensor
) -> tuple[str, list[dict[str, Any]]]:
    """Return under which name a choice is kept, and among what it is made: with rings first, where rows can have one.

    The name is another there: what was fastest for rows without a ring holds for fp32, and in JAX.

    Args:
        kind: as above, forward.
        cols: as above.
        others: what the kernels without a ring can be launched with.
        rows: a matrix, and parameters.
    """
    rings = ring_blocks(kind, cols)
    if rings and on_hopper(*rows):
        return f"{kind}_hopper", rings + others[: MOST - len(rings)]
    return kind, others


def launch_ring(kernel: Any, choice: Any, x: torch.Tensor, *args: Any, **modes: Any) -> None:
    """Launch a kernel whose programs each take whole rows of x, in turn."""
    rows, cols = x.shape
    sizes = {name: choice[name] for name in ("BLOCK", "SLOTS", "num_warps")}
    programs = evenly(rows, processors(x.device) * choice["PER_SM"])
    launch(kernel, (1, programs), *args, BLOCKS=-(-cols // choice["BLOCK"]), **sizes, **modes)
