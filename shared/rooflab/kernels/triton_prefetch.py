# mypy: disallow-untyped-defs=False
"""How is memory that will be read later brought to the cache that all multiprocessors share? By NVIDIA's chips alone.

>>> prefetch.__name__
'prefetch'
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["prefetch"]


@triton.jit
def prefetch(lines):
    """Ask for the lines at these places; takes no registers, no shared memory, and nobody waits."""
    asm: tl.constexpr = "prefetch.global.L2 [$1]; // $0"
    tl.inline_asm_elementwise(asm, "=r,l", [lines], dtype=tl.int32, is_pure=False, pack=1)
