"""How the kernels of attention are compiled for a chip that is not there: D = 128 in bf16, without a mask.

>>> [kind for kind in ("hopper", "portable") if kind in CHIPS]
['hopper', 'portable']
"""

from __future__ import annotations

from typing import Any

from rooflab.kernels.compiled import Build

from .blocks import backward_blocks, decode_blocks, forward_blocks, head_rows

__all__ = ["CHIPS", "builds"]

# The portable kernels stand on descriptors of tiles, which other chips get as plain loads, in far more registers.
CHIPS = {"portable": ("sm90", "sm100"), "hopper": ("sm90",)}
_WIDTH = 128


def builds() -> dict[str, Build]:
    """Return each kernel with the types and block sizes of a typical call, by name."""
    from . import triton_attention as forward
    from . import triton_attention_backward as backward
    from . import triton_decode as decode

    queries, keys = (each[0] for each in backward_blocks(_WIDTH, 2))
    made = {
        "attention": _build(forward.attention_kernel, "o q", "k v", forward_blocks(_WIDTH, 2)[0]),
        "attention_queries_backward": _build(
            backward.attention_queries_backward_kernel, "dq o do q", "k v", queries
        ),
        "attention_keys_backward": _build(
            backward.attention_keys_backward_kernel, "do q", "dk dv k v", keys, described="lse delta"
        ),
    }  # fmt: skip
    choice = decode_blocks(_WIDTH, 2)[0]
    types = {name: _tile(choice["N"], gluon=False) for name in ("k", "v")} | {"q": "*bf16"}
    constants = {"D": _WIDTH, "R": 16, "N": choice["N"]}
    made["attention_decode"] = _filled(decode.decode_kernel, types, constants, choice, CHIPS["portable"])
    return made | _heads() | _hopper()


def _heads() -> dict[str, Build]:
    """Those that prepare queries and keys, with the norm, at D = 64."""
    from . import triton_heads as kernels

    choice = head_rows("cuda")[0]
    constants = {"HALF": 32, "ROWS": choice["ROWS"], "NORMALIZE": True}
    numbers = dict.fromkeys(("rows", "heads", "T"), "i32") | dict.fromkeys(("cosine", "sine"), "*fp32")
    return {
        name: Build(kernel, dict.fromkeys(arrays.split(), "*bf16") | numbers, constants, choice["num_warps"])
        for name, kernel, arrays in (
            ("rotary_heads", kernels.heads_kernel, "q k v qkv"),
            ("rotary_heads_backward", kernels.heads_backward_kernel, "dqkv dq dk dv qkv"),
        )
    }


def _hopper() -> dict[str, Build]:
    """Those in Gluon, where this Triton has it."""
    try:
        from . import triton_attention_hopper as forward
        from . import triton_backward_hopper as keys
        from . import triton_queries_hopper as queries
    except ImportError:
        return {}
    first = forward_blocks(_WIDTH, 2, hopper=True)[0]
    both = {"M": 64, "N": 64, **backward_blocks(_WIDTH, 2, hopper=True)[0][0]}
    return {
        "attention_hopper": _build(forward.attention_hopper_kernel, "o q", "k v", {"M": 64, **first}),
        "attention_queries_backward_hopper": _build(
            queries.queries_backward_hopper_kernel, "dq o do q", "k v", both
        ),
        "attention_keys_backward_hopper": _build(
            keys.keys_backward_hopper_kernel, "do q", "dk dv k v", both, described="lse delta"
        ),
    }  # fmt: skip


def _build(kernel: Any, of_queries: str, of_keys: str, choice: dict[str, int], described: str = "") -> Build:
    gluon = "STAGES" in choice
    types = {name: _tile(choice["M"], gluon=gluon) for name in of_queries.split()}
    types |= {name: _tile(choice["N"], gluon=gluon) for name in of_keys.split()}
    types |= {name: _row(choice["M"], gluon=gluon) for name in described.split()}
    constants: dict[str, Any] = {name: choice[name] for name in ("M", "N", "STAGES") if name in choice}
    constants |= {"D": _WIDTH, "CAUSAL": False}
    return _filled(kernel, types, constants, choice, CHIPS["hopper" if gluon else "portable"])


def _filled(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], choice: dict[str, int], chips: tuple[str, ...]
) -> Build:
    """With the types of the arguments that are left: the scale, statistics in fp32, and whole numbers."""
    exact = {"lse", "delta", "parts", "largest", "sums"}
    names = [name for name in kernel.arg_names if name not in constants and name not in types]
    kinds = {name: "fp32" if name == "scale" else "*fp32" if name in exact else "i32" for name in names}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    # Lengths are of any size.
    loose = tuple(name for name, kind in kinds.items() if kind == "i32")
    return Build(
        kernel, {**types, **kinds}, constants, choice["num_warps"], choice.get("num_stages", 1), loose, chips,
        "STAGES" in constants,
    )  # fmt: skip


def _tile(rows: int, *, gluon: bool) -> str:
    return f"tensordesc<bf16[1, 1, {rows}, {_WIDTH}]{_layout([1, 1, rows, _WIDTH], 'bfloat16') if gluon else ''}>"


def _row(cols: int, *, gluon: bool) -> str:
    return f"tensordesc<fp32[1, {cols}]{_layout([1, cols], 'float32') if gluon else ''}>"


def _layout(shape: list[int], kind: str) -> str:
    """How a tile lies in shared memory; a descriptor of Gluon says so."""
    from triton.experimental.gluon import language as gl

    return f",{gl.NVMMASharedLayout.get_default_for(shape, getattr(gl, kind))!r}"
