"""Attention against cuDNN, FlashAttention-2 and flex attention, at 16,384 tokens of 16 heads in bf16.

>>> len(SIZES)
10
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels import rivals
from rooflab.kernels.benchmark import Case

__all__ = ["CACHES", "SIZES", "cases"]

TOKENS, HEADS = 16_384, 16
# D, length of a sequence, causal.
SIZES = tuple(
    (width, length, causal) for width in (64, 128) for length, causal in
    ((1024, False), (4096, False), (4096, True), (16384, False), (16384, True))
)  # fmt: skip
CACHES = ((16, 8192, 128), (1, 131_072, 128))  # sequences, keys, D; 32 heads that share 8 of keys and values


def cases(
    sizes: tuple[tuple[int, int, bool], ...] = SIZES,
    caches: tuple[tuple[int, int, int], ...] = CACHES,
    device: str = "cuda",
    tokens: int = TOKENS,
) -> Iterator[Case]:
    """Yield attention forward, forward and backward, and of one query."""
    for width, length, causal in sizes:
        shape = (max(1, tokens // length), HEADS if device == "cuda" else 2, length, width)
        yield from _attention(shape, causal, device)
    yield from _heads((16, 1024, 3, 12, 64) if device == "cuda" else (2, 5, 3, 2, 16), device)
    for batch, keys, width in caches:
        yield _decode(batch, keys, width, device)


def _normal(shape: tuple[int, ...], seed: int, device: str) -> Any:
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=device).bfloat16()


def _attention(shape: tuple[int, ...], causal: bool, device: str) -> Iterator[Case]:
    import torch

    from .torch_attention import attention_backward, attention_with_lse

    scale = shape[-1] ** -0.5
    size = f"L={shape[2]} D={shape[3]} {'causal' if causal else 'full'}"

    def library(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    forward = {name: _by(backend, library) for name, backend in _backends().items()}
    if torch.cuda.is_available():
        forward["flex"] = _flex(causal)
    ours = forward | {"rooflab": lambda q, k, v: attention_with_lse(q, k, v, causal, scale)[0]}

    def made(seed: int) -> tuple[Any, ...]:
        return tuple(_normal(shape, 3 * seed + place, device) for place in range(3))

    yield Case("attention", size, made, ours, _LIBRARY, library, shape[2], 0.9)

    def both(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(q: Any, k: Any, v: Any, do: Any) -> Any:
            leaves = [each.detach().requires_grad_() for each in (q, k, v)]
            o = call(*leaves)
            return o.detach(), *torch.autograd.grad(o, leaves, do)

        return run

    def own(q: Any, k: Any, v: Any, do: Any) -> Any:
        o, lse = attention_with_lse(q, k, v, causal, scale)
        return o, *attention_backward(do, q, k, v, o, lse, causal, scale)

    def with_gradient(seed: int) -> tuple[Any, ...]:
        return *made(seed), _normal(shape, 10**6 + seed, device)

    training = {name: both(call) for name, call in forward.items()} | {"rooflab": own}
    yield Case("attention_training", size, with_gradient, training, _LIBRARY, both(library), shape[2], 0.8)


_LIBRARY = "cudnn"


def _heads(shape: tuple[int, ...], device: str) -> Iterator[Case]:
    """Queries, keys and values out of one product, with norm and rotation; beside their traffic."""
    import torch

    from .torch_heads import heads_backward, heads_of

    batch, length, _, heads, width = shape
    angles = torch.arange(length, device=device)[:, None] * 10_000.0 ** (
        -torch.arange(0, width, 2, device=device) / width
    )
    tables = angles.cos(), angles.sin()
    cosine, sine = (each[:, None, :] for each in tables)

    def formula(qkv: Any) -> tuple[Any, ...]:
        found = []
        for x in qkv.float().unbind(2)[:2]:
            x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            first, second = x.chunk(2, -1)
            turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
            found.append(turned.to(qkv.dtype))
        return *found, qkv.select(2, 2).clone()

    def gradient(qkv: Any, *given: Any) -> Any:
        leaf = qkv.detach().requires_grad_()
        return torch.autograd.grad(formula(leaf), leaf, given)[0]

    size = " x ".join(map(str, shape))
    part = (batch, length, heads, width)

    def made(seed: int) -> tuple[Any, ...]:
        return tuple(_normal(each, 4 * seed + place, device) for place, each in enumerate((shape, part, part, part)))

    forward: dict[str, Callable[..., Any]] = {
        "copy": torch.clone, "rooflab": lambda qkv: heads_of(qkv, *tables, True), "compiled": rivals.compiled(formula),
        "eager": formula,
    }  # fmt: skip
    yield Case("rotary_heads", size, lambda seed: made(seed)[:1], forward, "copy", formula, width, 0.9)
    backward: dict[str, Callable[..., Any]] = {
        # Five parts are read and three written: as many bytes as copying four takes.
        "traffic": lambda qkv, dq, dk, dv: (qkv.clone(), dq.clone()),
        "rooflab": lambda qkv, dq, dk, dv: heads_backward(dq, dk, dv, qkv, *tables, True), "eager": gradient,
    }  # fmt: skip
    yield Case("rotary_heads_backward", size, made, backward, "traffic", gradient, width, 0.9)


def _backends() -> dict[str, Any]:
    """torch's own kernels, by name; on a CPU its one way stands for the library."""
    import torch
    from torch.nn.attention import SDPBackend

    if not torch.cuda.is_available():
        return {_LIBRARY: SDPBackend.MATH}
    return {_LIBRARY: SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def _by(backend: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    from torch.nn.attention import sdpa_kernel

    def run(*given: Any) -> Any:
        with sdpa_kernel(backend):
            return call(*given)

    return run


def _flex(causal: bool) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    fast = rivals.compiled(flex_attention)
    masks: dict[int, Any] = {}

    def run(q: Any, k: Any, v: Any) -> Any:
        length = q.shape[2]
        if causal and length not in masks:
            masks[length] = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=q.device)
        return fast(q, k, v, block_mask=masks.get(length))

    return run


def _decode(batch: int, keys: int, width: int, device: str) -> Case:
    import torch

    from .torch_decode import attention_decode

    heads, few = (32, 8) if device == "cuda" else (4, 2)
    shapes = ((batch, heads, 1, width), (batch, few, keys, width), (batch, few, keys, width))

    def made(seed: int) -> tuple[Any, ...]:
        return tuple(_normal(shape, 3 * seed + place, device) for place, shape in enumerate(shapes))

    def library(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    candidates: dict[str, Callable[..., Any]] = {
        # Keys and values are read, and next to nothing written: half of what it takes to copy both.
        "traffic": lambda q, k, v: k.clone(),
        "rooflab": attention_decode, "eager": library, "compiled": rivals.compiled(library),
    }  # fmt: skip
    return Case("attention_decode", f"B={batch} L={keys} D={width}", made, candidates, "traffic", library, keys, 0.9)
