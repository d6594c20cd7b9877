"""How do tensors reach the kernels of attention: by which descriptors, and which kernel where?

>>> import torch
>>> described(torch.zeros(2, 3, 5, 16), 64).block_shape
[1, 1, 64, 16]
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..launching import launch

__all__ = [
    "described",
    "launch_keys_on_hopper",
    "launch_on_hopper",
    "launch_queries_on_hopper",
    "on_hopper",
    "rows_described",
]

_GROUP = 64  # queries or keys of a group of four warps: what one wgmma takes


def described(x: torch.Tensor, rows: int, *, layout: Any = None) -> Any:
    """Return a descriptor of (batch, heads, length, D) with blocks of some rows of one head.

    The copy engine wants D contiguous, and everything else at multiples of 16 bytes: a tensor that is not so is copied.

    Args:
        x: the tensor.
        rows: of a block.
        layout: Gluon's, of a block in shared memory; without it, the descriptor is for Triton, which finds one.
    """
    unit = 16 // x.itemsize
    # Where there is one index only, its stride is never used, but must be right.
    sizes = list(x.shape)
    steps = [x.shape[3] if sizes[i] == 1 else x.stride(i) for i in range(3)]
    if x.stride(3) != 1 or x.data_ptr() % 16 or any(step % unit or not step for step in steps):
        return described(x.clone(memory_format=torch.contiguous_format), rows, layout=layout)
    block = [1, 1, rows, x.shape[3]]
    if layout is None:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(x, sizes, [*steps, 1], block)
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

    return GluonDescriptor(x, sizes, [*steps, 1], block, layout)


def rows_described(x: torch.Tensor, cols: int, *, gluon: bool = False) -> Any:
    """Return a descriptor of statistics, (batch, heads, step), contiguous, with blocks of some columns of one row."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    rows = x.flatten(0, 1)
    if not gluon:
        return TensorDescriptor.from_tensor(rows, [1, cols])
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor

    return GluonDescriptor.from_tensor(rows, [1, cols], gl.NVMMASharedLayout.get_default_for([1, cols], gl.float32))


def on_hopper(q: torch.Tensor) -> bool:
    """Whether the kernel for Hopper takes these queries: on such a chip, of 16 bits, D = 64 or 128."""
    if q.device.type != "cuda" or q.itemsize != 2 or q.shape[3] not in (64, 128) or torch.version.hip:
        return False
    return torch.cuda.get_device_capability(q.device)[0] == 9


def launch_on_hopper(
    o: torch.Tensor, lse: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float,
    choice: Any,
) -> None:  # fmt: skip
    """Launch the persistent, specialized kernel; arguments as those of the operator, and what it fills."""
    from .triton_attention_hopper import attention_hopper_kernel

    batch, heads, queries, width = q.shape
    blocks = -(-queries // (2 * _GROUP))
    blocks += blocks % 2 if causal else 0
    tiles = blocks * batch * heads
    near, far = (_layout(rows, width, q.dtype) for rows in (_GROUP, choice["N"]))
    programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    launch(
        attention_hopper_kernel, (min(tiles, programs),), described(o, _GROUP, layout=near), lse,
        described(q, _GROUP, layout=near), described(k, choice["N"], layout=far), described(v, choice["N"], layout=far),
        heads, heads // k.shape[1], blocks, tiles, queries, k.shape[2], lse.shape[2], scale, CAUSAL=causal, D=width,
        **choice,
    )  # fmt: skip


def launch_keys_on_hopper(
    dk: torch.Tensor, dv: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, delta: torch.Tensor, q: torch.Tensor,
    k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, choice: Any,
) -> None:  # fmt: skip
    """Launch the kernel for Hopper that fills dk and dv; arguments as those of the operator."""
    from .triton_backward_hopper import keys_backward_hopper_kernel

    batch, heads, queries, width = q.shape
    few, keys = k.shape[1:3]
    blocks = [described(each, _GROUP, layout=_layout(_GROUP, width, q.dtype)) for each in (dk, dv, do, q, k, v)]
    launch(
        keys_backward_hopper_kernel, (-(-keys // _GROUP) * batch * few,), *blocks[:3],
        *(rows_described(each, _GROUP, gluon=True) for each in (lse, delta)), *blocks[3:], heads, heads // few,
        queries, keys, scale, CAUSAL=causal, D=width, M=_GROUP, N=_GROUP, **choice,
    )  # fmt: skip


def launch_queries_on_hopper(
    dq: torch.Tensor, delta: torch.Tensor, o: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, q: torch.Tensor,
    k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, choice: Any,
) -> None:  # fmt: skip
    """Launch the kernel for Hopper that fills dq and delta; arguments as those of the operator."""
    from .triton_queries_hopper import queries_backward_hopper_kernel

    batch, heads, queries, width = q.shape
    blocks = [described(each, _GROUP, layout=_layout(_GROUP, width, q.dtype)) for each in (dq, o, do, q, k, v)]
    launch(
        queries_backward_hopper_kernel, (-(-queries // _GROUP) * batch * heads,), blocks[0], delta, *blocks[1:3], lse,
        *blocks[3:], heads, heads // k.shape[1], queries, k.shape[2], lse.shape[2], scale, CAUSAL=causal, D=width,
        M=_GROUP, N=_GROUP, **choice,
    )  # fmt: skip


@functools.cache
def _layout(rows: int, width: int, dtype: torch.dtype) -> Any:
    from triton.experimental.gluon import language as gl

    kinds = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, width], kinds[dtype])
