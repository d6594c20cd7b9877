"""A product of fp8 matrices with scales as a PyTorch operator, `rooflab::scaled_matmul`.

>>> import torch
>>> two = torch.full((16, 16), 2.0).to(torch.float8_e4m3fn)
>>> scaled_matmul(two, two.t(), torch.tensor(0.5), torch.tensor(1.0))[0, :2]
tensor([32., 32.], dtype=torch.bfloat16)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..demands import flag, never, refuse, together
from ..launching import launch
from ..tuning import choose
from .tiles import INTERPRETED, count_tiles, launch_options, tilings
from .torch_operands import as_stored, described, padded_empty, processors
from .torch_scaled_hopper import launch_on_hopper, on_hopper
from .triton_scaled_matmul import block_scaled_matmul_kernel, scaled_matmul_kernel

__all__ = ["scaled_matmul", "scaled_product", "scaling"]

_NAME = "scaled_matmul"
_BLOCK = 128


def scaled_matmul(
    a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, *,
    dtype: torch.dtype | None = None, exact: bool = True,
) -> torch.Tensor:  # fmt: skip
    """Return the product of fp8 matrices with scales; see :func:`rooflab.kernels.scaled_matmul`."""
    if not isinstance(dtype, (torch.dtype, type(None))):
        raise TypeError(f"{_NAME}: expected a format of torch for dtype, such as torch.bfloat16; found {dtype!r}.")
    return scaled_product(a, b, a_scale, b_scale, dtype or torch.bfloat16, flag(_NAME, "exact", exact))


def scaling(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor) -> str:
    """Return what the scales are for: "tensor", "row" or "block".

    Raises:
        ValueError: their shapes are those of none of these.
    """
    (m, k), n = a.shape, b.shape[1]
    if a_scale.numel() == b_scale.numel() == 1:
        return "tensor"
    if tuple(a_scale.shape) in ((m,), (m, 1)) and tuple(b_scale.shape) in ((n,), (1, n)):
        return "row"
    blocks = -(-k // _BLOCK)
    if tuple(a_scale.shape) == (m, blocks) and tuple(b_scale.shape) == (blocks, -(-n // _BLOCK)):
        return "block"
    refuse(
        _NAME,
        f"expected scales of shapes () and (), of [{m}] and [{n}], or of [{m}, {blocks}] and "
        f"[{blocks}, {-(-n // _BLOCK)}]; found {list(a_scale.shape)} and {list(b_scale.shape)}.",
    )
    raise AssertionError  # refuse has raised


@torch.library.custom_op("rooflab::scaled_matmul", mutates_args=())
def scaled_product(
    a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, dtype: torch.dtype, exact: bool
) -> torch.Tensor:
    """Return the product, contiguous, in a format of 16 bits or fp32.

    Args:
        a: of shape [M, K], in e4m3.
        b: of shape [K, N], in e4m3; stored transposed it needs no copy.
        a_scale: in fp32 (see :func:`scaling`).
        b_scale: in fp32.
        dtype: of the result.
        exact: whether sums of 128 terms are added up in fp32; block scales always are.
    """
    together(_NAME, a=a, b=b, a_scale=a_scale, b_scale=b_scale)
    kind = _check(a, b, a_scale, b_scale, dtype)
    (m, k), n = a.shape, b.shape[1]
    if not m * n * k:
        return a.new_zeros(m, n, dtype=dtype)
    c = padded_empty(m, n, dtype, a.device)
    _run(c, a, b, a_scale, b_scale, kind, exact)
    return c.contiguous()


@scaled_product.register_fake
def _(
    a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, dtype: torch.dtype, exact: bool
) -> torch.Tensor:
    _check(a, b, a_scale, b_scale, dtype)
    return a.new_empty(a.shape[0], b.shape[1], dtype=dtype)


never(_NAME, scaled_product, "use matmul for one")


def _check(a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, dtype: torch.dtype) -> str:
    if a.dtype != torch.float8_e4m3fn or b.dtype != torch.float8_e4m3fn:
        refuse(_NAME, f"expected matrices in float8_e4m3fn; found {a.dtype} and {b.dtype}: quantize them first.")
    if a_scale.dtype != torch.float32 or b_scale.dtype != torch.float32:
        refuse(_NAME, f"expected scales in float32; found {a_scale.dtype} and {b_scale.dtype}: convert them first.")
    if dtype not in (torch.bfloat16, torch.float16, torch.float32):
        refuse(_NAME, f"its result is in bfloat16, float16 or float32; found {dtype}.")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        refuse(_NAME, f"expected matrices [M, K] and [K, N]; found {list(a.shape)} and {list(b.shape)}.")
    if a.device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(a.device) < (8, 9):
        refuse(_NAME, "this chip has no e4m3: expected compute capability 8.9 or newer; convert to bfloat16.")
    return scaling(a, b, a_scale, b_scale)


def _run(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, a_scale: torch.Tensor, b_scale: torch.Tensor, kind: str,
    exact: bool,
) -> None:  # fmt: skip
    (m, k), n = a.shape, b.shape[1]
    a, b = as_stored(a, only=False)[0], as_stored(b, only=True)[0]
    if kind != "block":
        a_scale, b_scale = a_scale.reshape(-1).contiguous(), b_scale.reshape(-1).contiguous()
    if (exact or kind == "block") and on_hopper(c.device):
        launch_on_hopper(c, a, b, a_scale, b_scale, kind)
        return
    many, engine = processors(c.device)
    if kind == "block":
        kernel, more = block_scaled_matmul_kernel, (*a_scale.stride(), *b_scale.stride())
        flags: dict[str, Any] = {"BLOCK": _BLOCK}
    else:
        kernel, more, flags = scaled_matmul_kernel, (), {"BY_ROW": kind == "row", "EXACT": exact}

    def run(choice: Mapping[str, Any]) -> None:
        tiling = dict(choice)
        grid = (min(count_tiles(m, n, tiling), many * tiling["PER_SM"]),)
        matrices = (
            described(c, (tiling["TILE_M"], tiling["TILE_N"] // tiling["PARTS"])),
            described(a, (tiling["TILE_M"], tiling["TILE_K"])),
            described(b, (tiling["TILE_N"], tiling["TILE_K"])),
        )
        launch(kernel, grid, *matrices, a_scale, b_scale, m, n, k, *more, **flags, **launch_options(tiling))

    wanted = "blocks" if kind == "block" else "8 exact" if exact else "8"
    if c.device.type == "cpu":
        run(INTERPRETED | {"TILE_K": _BLOCK})
    else:
        candidates = tilings(m, n, wanted if engine else f"{wanted} plain", many)
        run(choose(f"scaled_matmul_{wanted.replace(' ', '_')}", (m, n, k), candidates, run, c.device))
