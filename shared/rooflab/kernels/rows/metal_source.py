"""What the Metal kernels over rows have in common: their source for a format and a row's length, and its compilation.

One threadgroup takes one row at a time, or several in turn, and each of its threads some elements of it, which stay in
registers. Sums over a row go over the 32 threads of a simdgroup first, then through threadgroup memory.

Unverified on real hardware: the source has been compiled as C++ and run thread by thread, but not on an Apple GPU.

>>> shape_of(1000)
(128, 8)
>>> "#define ITEMS 8 " in source("", "float32", 1000)
True
"""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["library", "on_apple", "shape_of", "source"]

_TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat"}
_SIMD = 32
_MOST_THREADS = 1024
_ITEMS = 8

_COMMON = """#include <metal_stdlib>
using namespace metal;

typedef {type} number;
#define ITEMS {items}    // elements that a thread holds
#define THREADS {threads}  // of a threadgroup
// So many threads have to find room: the compiler may not take more registers for each of them.
#define KERNEL [[kernel, max_total_threads_per_threadgroup(THREADS)]] void

// The position of a thread: which row, where in the threadgroup, in the simdgroup, and which simdgroup.
#define POSITION uint2 group [[threadgroup_position_in_grid]], uint thread [[thread_index_in_threadgroup]], \\
    uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]

static float total(float value, threadgroup float* parts, uint lane, uint simd) {{
    value = simd_sum(value);
    threadgroup_barrier(mem_flags::mem_threadgroup);  // somebody may still read the parts of the last sum
    if (lane == 0) parts[simd] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_sum(lane < THREADS / 32 ? parts[lane] : 0.0f);
}}

static float largest(float value, threadgroup float* parts, uint lane, uint simd) {{
    value = simd_max(value);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) parts[simd] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_max(lane < THREADS / 32 ? parts[lane] : -INFINITY);
}}
"""


def on_apple(tensor: Any) -> bool:
    """Whether a tensor of PyTorch lies on an Apple GPU."""
    return tensor.device.type == "mps"


def shape_of(cols: int) -> tuple[int, int]:
    """Return the threads of a threadgroup, and how many elements of a row each of them holds."""
    threads = _SIMD
    while threads < _MOST_THREADS and threads * _ITEMS < cols:
        threads *= 2
    return threads, -(-cols // threads)


def source(kernels: str, dtype: str, cols: int) -> str:
    """Return the whole source of some kernels.

    Args:
        kernels: in Metal's language, with `number` for the format.
        dtype: of the arrays: float32, float16 or bfloat16.
        cols: of a row.
    """
    threads, items = shape_of(cols)
    return _COMMON.format(type=_TYPES[dtype], items=items, threads=threads) + kernels


@functools.cache
def library(kernels: str, dtype: str, cols: int) -> Any:
    """Return some kernels, compiled for a format and the shape of a threadgroup."""
    import torch

    return torch.mps.compile_shader(source(kernels, dtype, cols))
