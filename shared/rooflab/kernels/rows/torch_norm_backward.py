"""Which kernel is a choice of the norms' gradients for, and what does it take beside the arrays?

>>> choice = {"ROWS": 1, "STAGES": 3, "num_warps": 8}
>>> backward_kernel(choice, 4, 1024, torch.device("cpu"), chain=False)[1]
{'ROWS': 1, 'STAGES': 3, 'num_warps': 8, 'COLS': 1024}
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["backward_kernel"]


def backward_kernel(
    choice: dict[str, Any], rows: int, width: int, device: torch.device, *, chain: bool
) -> tuple[Any, dict[str, Any], bool]:
    """Return the kernel that a choice is for, all of its sizes, and whether it takes two numbers as a word.

    Args:
        choice: without what only says how many programs there are.
        rows: of what was normalized.
        width: of a row, the next power of two.
        device: of the arrays.
        chain: the kernel that follows is launched while this one runs.
    """
    if "STAGES" in choice:
        from .triton_norm import norm_backward_kernel

        return norm_backward_kernel, choice | {"COLS": width}, False
    if "ROWS" in choice:
        from .triton_norm_warps import norm_backward_warps_kernel

        return norm_backward_warps_kernel, {"COLS": width, "num_warps": choice["num_warps"]}, True
    sizes = choice | {"BLOCKS": width // choice["PARTS"] // choice["BLOCK"]}
    if "LEAD" in sizes:
        from .triton_norm_exchange import EMPTY, norm_backward_exchange_kernel

        cells = torch.full((rows, sizes["PARTS"]), EMPTY.value, dtype=torch.int64, device=device)
        # Programs wait for each other: cooperative, they are all brought to the chip, or it is an error.
        return norm_backward_exchange_kernel, sizes | {"cells": cells, "launch_cooperative_grid": True}, False
    if "SLOTS" in sizes:
        from .triton_norm_hopper import norm_backward_hopper_kernel

        return norm_backward_hopper_kernel, sizes, False
    from .triton_norm_long import long_norm_backward_kernel

    return long_norm_backward_kernel, sizes | {"AHEAD": chain}, False
