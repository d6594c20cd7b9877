"""Attention as an operator of PyTorch, with its gradients.

>>> import torch
>>> q, k, v = torch.zeros(1, 1, 2, 16), torch.zeros(1, 1, 3, 16), torch.arange(3.0)[:, None].expand(1, 1, 3, 16)
>>> attention(q, k, v)[0, 0, :, 0]
tensor([1., 1.])
>>> attention(q, k, v, causal=True)[0, 0, :, 0]
tensor([0.5000, 1.0000])
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..demands import floats, once, positive, refuse, together
from ..launching import launch
from ..tuning import choose
from .blocks import backward_blocks, forward_blocks, size_key
from .torch_descriptors import (
    described,
    launch_keys_on_hopper,
    launch_on_hopper,
    launch_queries_on_hopper,
    on_hopper,
    rows_described,
)
from .triton_attention import attention_kernel
from .triton_attention_backward import attention_keys_backward_kernel, attention_queries_backward_kernel

__all__ = ["attention", "attention_backward", "attention_with_lse", "check_heads", "usual_scale"]

WIDTHS = (16, 32, 64, 128)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return softmax(scale q k^T) v of each head, the scores never in memory.

    Args:
        q: queries, (batch, heads, queries, D), float32, bfloat16 or float16; D is 16, 32, 64 or 128. Batch, head and
            row may have any strides; a copy is made if D is not contiguous, or if a row does not begin at 16 bytes.
        k: keys, (batch, kv_heads, keys, D); heads is a multiple of kv_heads, whose heads consecutive ones share.
        v: values, as k.
        causal: each query sees the keys up to its own position, the last query all of them.
        scale: of the scores, 2^-126 to 2^126 (default: 1 / sqrt(D)).

    Returns:
        the shape and format of q. Without any keys it is zero. A query with NaN or plus infinity among its scores, or
        nothing but minus infinity, gives NaN, as in torch. Keys and values behind the causal mask must be finite.

    Raises:
        TypeError: for other formats.
        ValueError: for shapes that do not fit together, more queries than keys under a causal mask, or another scale.
    """
    return attention_with_lse(q, k, v, causal, usual_scale(q) if scale is None else scale)[0]


@torch.library.custom_op("rooflab::attention", mutates_args=())
def attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the output, and log(sum(exp(scores))) of each query, which has no gradient.

    Args:
        q: of shape (batch, heads, queries, D); k, v, causal, scale: see :func:`attention`.
        k: of shape (batch, kv_heads, keys, D).
        v: as k.
        causal: whether there is a mask.
        scale: of the scores.

    Returns:
        the output, and in fp32 (batch, heads, queries rounded up to 4): a row has to begin at 16 bytes.
    """
    _check("attention", q, k, v, causal, scale)
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    o, lse = _like(q), _statistics(q)
    if not keys:
        return o.zero_(), lse.fill_(-math.inf)

    def run(choice: Any) -> None:
        if "STAGES" in choice:
            return launch_on_hopper(o, lse, q, k, v, causal, scale, choice)
        rows, cols = choice["M"], choice["N"]
        return launch(
            attention_kernel, (-(-queries // rows) * batch * heads,), described(o, rows), lse, described(q, rows),
            described(k, cols), described(v, cols), heads, heads // k.shape[1], queries, keys, lse.shape[2], scale,
            CAUSAL=causal, D=width, **choice,
        )  # fmt: skip

    if q.numel():
        key = size_key(width, queries, keys, 1 + causal)
        run(choose("attention", key, forward_blocks(width, q.itemsize, hopper=on_hopper(q)), run, q.device))
    return o, lse


@torch.library.custom_op("rooflab::attention_backward", mutates_args=())
def attention_backward(
    do: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
    causal: bool, scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return dq, dk and dv, the same ones each time.

    Args:
        do: the gradient with regard to the output.
        q: the arguments of forward, and what it returned.
        k: as forward.
        v: as forward.
        o: as forward returned it.
        lse: as forward returned it.
        causal: as forward.
        scale: as forward.
    """
    batch, heads, queries, width = q.shape
    keys, few = k.shape[2], k.shape[1]
    dq, dk, dv = _like(q), _like(k), _like(v)
    if not q.numel() or not k.numel():
        return dq.zero_(), dk.zero_(), dv.zero_()
    delta = torch.empty_like(lse)
    sizes = (heads, heads // few, queries, keys)
    of_queries, of_keys = backward_blocks(width, q.itemsize, hopper=on_hopper(q))
    key = size_key(width, queries, keys, 1 + causal)

    def run_queries(choice: Any) -> None:
        if "STAGES" in choice:
            return launch_queries_on_hopper(dq, delta, o, do, lse, q, k, v, causal, scale, choice)
        m, n = choice["M"], choice["N"]
        return launch(
            attention_queries_backward_kernel, (-(-queries // m) * batch * heads,), described(dq, m), delta,
            described(o, m), described(do, m), lse, described(q, m), described(k, n), described(v, n), *sizes,
            lse.shape[2], scale, CAUSAL=causal, D=width, **choice,
        )  # fmt: skip

    def run_keys(choice: Any) -> None:
        if "STAGES" in choice:
            return launch_keys_on_hopper(dk, dv, do, lse, delta, q, k, v, causal, scale, choice)
        m, n = choice["M"], choice["N"]
        statistics = (rows_described(each, m) for each in (lse, delta))
        return launch(
            attention_keys_backward_kernel, (-(-keys // n) * batch * few,), described(dk, n), described(dv, n),
            described(do, m), *statistics, described(q, m), described(k, n), described(v, n), *sizes, scale,
            CAUSAL=causal, D=width, **choice,
        )  # fmt: skip

    run_queries(choose("attention_queries_backward", key, of_queries, run_queries, q.device))  # writes delta
    run_keys(choose("attention_keys_backward", key, of_keys, run_keys, q.device))
    return dq, dk, dv


def usual_scale(q: torch.Tensor) -> float:
    """Return 1 / sqrt(D) for queries [..., D]; 1 for what has no D, which is refused later on."""
    return q.shape[-1] ** -0.5 if q.ndim and q.shape[-1] else 1.0


def check_heads(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Refuse queries, keys and values that do not fit together.

    Raises:
        TypeError: for formats without a kernel.
        ValueError: for shapes, devices or formats that differ where they must not.
    """
    floats(name, q=q, k=k, v=v)
    together(name, q=q, k=k, v=v)
    shapes = f"found q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.dim() == k.dim() == v.dim() == 4 or k.shape != v.shape:
        refuse(name, f"expected (batch, heads, length, D), the same for k and v; {shapes}.")
    if not q.dtype == k.dtype == v.dtype:
        refuse(name, f"expected one format; found q {q.dtype}, k {k.dtype}, v {v.dtype}: convert them first.")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        refuse(name, f"expected the same batch and D; {shapes}.")
    if q.shape[1] and (not k.shape[1] or q.shape[1] % k.shape[1]):
        refuse(name, f"expected the heads of q to be a multiple of those of k and v; {shapes}.")
    if q.shape[3] not in WIDTHS:
        refuse(name, f"expected D to be one of {', '.join(map(str, WIDTHS))}; {shapes}.")


def _check(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> None:
    check_heads(name, q, k, v)
    positive(name, "scale", scale)
    if causal and q.shape[2] > k.shape[2]:
        refuse(
            name, f"expected at least as many keys as queries under a causal mask; found {k.shape[2]} < {q.shape[2]}."
        )


def _like(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape and order of dimensions, whose rows are contiguous."""
    return torch.empty_like(x) if x.stride(-1) == 1 else torch.empty_like(x, memory_format=torch.contiguous_format)


def _statistics(q: torch.Tensor) -> torch.Tensor:
    return q.new_empty((*q.shape[:2], (q.shape[2] + 3) // 4 * 4), dtype=torch.float32)


@attention_with_lse.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    return _like(q), _statistics(q)


@attention_backward.register_fake
def _(
    do: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
    causal: bool, scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return _like(q), _like(k), _like(v)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, do: torch.Tensor, _: Any) -> tuple[torch.Tensor | None, ...]:
    q, k, v, o, lse = ctx.saved_tensors
    return *attention_backward(do, q, k, v, o, lse, ctx.causal, ctx.scale), None, None


attention_with_lse.register_autograd(_gradient, setup_context=_keep)
once("attention", attention_backward)
