"""What is called differently in the versions of Gluon, under one name.

>>> callable(load_block), callable(load_each), callable(store_block), callable(synchronize)
(True, True, True, True)
"""

from __future__ import annotations

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import tma

__all__ = ["load_block", "load_each", "store_block", "synchronize"]

_AFTER_3_8 = hasattr(tma, "async_load")
load_block = tma.async_load if _AFTER_3_8 else tma.async_copy_global_to_shared
# From the place that each thread names, without a descriptor.
load_each = async_copy.async_load if hasattr(async_copy, "async_load") else async_copy.async_copy_global_to_shared
store_block = tma.async_store if _AFTER_3_8 else tma.async_copy_shared_to_global
synchronize = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier  # of the warps of one partition
