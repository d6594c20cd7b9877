"""What is called differently in the versions of Gluon, under one name.

>>> callable(load_block), callable(store_block), callable(synchronize)
(True, True, True)
"""

from __future__ import annotations

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma

__all__ = ["load_block", "store_block", "synchronize"]

_AFTER_3_8 = hasattr(tma, "async_load")
load_block = tma.async_load if _AFTER_3_8 else tma.async_copy_global_to_shared
store_block = tma.async_store if _AFTER_3_8 else tma.async_copy_shared_to_global
synchronize = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier  # of the warps of one partition
