"""The kernels for JAX against the same ones in Triton, which are their ceiling, and against what XLA makes or calls.

>>> [size for size in MATMUL_SIZES if size[0] > 4096]
[(8192, 8192, 8192)]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from . import rivals
from .benchmark import OURS, Case, JaxLoop

__all__ = ["ATTENTION_SIZES", "MATMUL_SIZES", "ROWS_SIZES", "TRAINING_SIZES", "cases"]

ROWS_SIZES = ((16384, 1024), (16384, 4096), (8192, 8192), (4096, 16384), (2048, 32768))
MATMUL_SIZES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192))  # M, N and K
# D, length of a sequence, causal.
TRAINING_SIZES = ((64, 4096, True), (128, 4096, False), (128, 4096, True))
ATTENTION_SIZES = (*TRAINING_SIZES, (64, 4096, False), (128, 1024, False))
_EPS = 1e-5


def cases(
    rows_sizes: tuple[tuple[int, int], ...] = ROWS_SIZES,
    matmul_sizes: tuple[tuple[int, int, int], ...] = MATMUL_SIZES,
    attention_sizes: tuple[tuple[int, int, bool], ...] = ATTENTION_SIZES,
    training_sizes: tuple[tuple[int, int, bool], ...] = TRAINING_SIZES,
    device: str = "cuda",
    tokens: int = 16_384,
) -> Iterator[Case]:
    """Yield every kernel for JAX at every size; none where JAX does not have the device."""
    if not rivals.has_jax(device):
        return
    for rows, cols in rows_sizes:
        yield _softmax(rows, cols, device)
        yield _rms_norm(rows, cols, device)
    for m, n, k in matmul_sizes:
        yield _matmul(m, n, k, device)
    heads = 16 if device == "cuda" else 2
    for width, length, causal in sorted(attention_sizes):
        yield _attention((max(1, tokens // length), heads, length, width), causal, device)
    for width, length, causal in sorted(training_sizes):
        yield _training((max(1, tokens // length), heads, length, width), causal, device)


def _softmax(rows: int, cols: int, device: str) -> Case:
    from .rows.cases import random_sets
    from .rows.torch_softmax import softmax

    made = random_sets(device, (rows, cols))
    steps = {OURS: lambda jax, x: _ours().softmax(x), "xla": lambda jax, x: jax.nn.softmax(x, -1)}
    return Case(
        "pallas_softmax", f"{rows} x {cols}", made, {"triton": softmax}, "triton", lambda x: x.softmax(-1), cols,
        0.9, jax=_loops(steps, made),
    )  # fmt: skip


def _rms_norm(rows: int, cols: int, device: str) -> Case:
    import torch

    from .rows.cases import random_sets
    from .rows.torch_norm import norm

    made = random_sets(device, (rows, cols), (cols,))

    def in_xla(jax: Any, x: Any, w: Any) -> Any:
        v = x.astype("float32")
        return (v * jax.lax.rsqrt((v * v).mean(-1, keepdims=True) + _EPS) * w).astype(x.dtype)

    def right(x: Any, w: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (cols,), w, _EPS)

    candidates = {"triton": lambda x, w: norm(x, None, w, None, _EPS, False)[0]}
    steps = {OURS: lambda jax, x, w: _ours().rms_norm(x, w, eps=_EPS), "xla": in_xla}
    return Case("pallas_rms_norm", f"{rows} x {cols}", made, candidates, "triton", right, cols, 0.9,
                jax=_loops(steps, made))  # fmt: skip


def _matmul(m: int, n: int, k: int, device: str) -> Case:
    """A product whose result is the next one's operand, so that numbers stay as large as they are."""
    import torch

    from .products.torch_matmul import matmul
    from .rows.cases import random_sets

    plain = random_sets(device, (m, k), (k, n))

    def made(seed: int) -> tuple[Any, ...]:
        a, b = plain(seed)
        return a, b * k**-0.5

    steps = {OURS: lambda jax, a, b: _ours().matmul(a, b), "xla": lambda jax, a, b: a @ b}
    return Case("pallas_matmul", f"{m} x {n} x {k}", made, {"triton": matmul}, "triton", torch.matmul, k, 0.9,
                jax=_loops(steps, made))  # fmt: skip


def _attention(shape: tuple[int, ...], causal: bool, device: str) -> Case:
    import torch

    from .attend.torch_attention import attention_with_lse
    from .rows.cases import random_sets

    made, scale = random_sets(device, shape, shape, shape), shape[-1] ** -0.5

    def right(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    candidates = {"triton": lambda q, k, v: attention_with_lse(q, k, v, causal, scale)[0]}
    return Case("pallas_attention", _told(shape, causal), made, candidates, "triton", right, shape[2], 0.9,
                jax=_loops(_functions(causal, device), made, turned=_library(device)))  # fmt: skip


def _training(shape: tuple[int, ...], causal: bool, device: str) -> Case:
    """Gradients with regard to queries, keys and values; that of the queries is the next one of the result."""
    import torch

    from .attend.torch_attention import attention_backward, attention_with_lse
    from .rows.cases import random_sets

    plain, scale = random_sets(device, shape, shape, shape, shape), shape[-1] ** -0.5

    def made(seed: int) -> tuple[Any, ...]:
        do, q, k, v = plain(seed)
        return do, q, k, v * shape[2] ** 0.5  # so that dq is about as large as do, whose place it takes

    def own(do: Any, q: Any, k: Any, v: Any) -> Any:
        o, lse = attention_with_lse(q, k, v, causal, scale)
        return attention_backward(do, q, k, v, o, lse, causal, scale)

    def right(do: Any, *given: Any) -> Any:
        leaves = [each.detach().requires_grad_() for each in given]
        o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        return torch.autograd.grad(o, leaves, do)

    def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(jax: Any, state: Any, q: Any, k: Any, v: Any) -> Any:
            return jax.vjp(lambda *given: function(jax, *given), q, k, v)[1](state[0])

        return step

    steps = {name: gradient(function) for name, function in _functions(causal, device).items()}
    loops = _loops(steps, made, turned=_library(device), states=3)
    return Case("pallas_attention_training", _told(shape, causal), made, {"triton": own}, "triton", right,
                shape[2], 0.8, jax=loops)  # fmt: skip


def _functions(causal: bool, device: str) -> dict[str, Callable[..., Any]]:
    """Attention as functions of JAX; the library wants heads behind the tokens."""

    def by_library(jax: Any, q: Any, k: Any, v: Any) -> Any:
        chosen = "cudnn" if device == "cuda" else "xla"
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation=chosen)

    return {OURS: lambda jax, q, k, v: _ours().attention(q, k, v, causal=causal), _library(device): by_library}


def _library(device: str) -> str:
    return "cudnn" if device == "cuda" else "xla"


def _told(shape: tuple[int, ...], causal: bool) -> str:
    return f"L={shape[2]} D={shape[3]} {'causal' if causal else 'full'}"


def _ours() -> Any:
    from rooflab import kernels

    return kernels


def _loops(
    steps: dict[str, Callable[..., Any]], made: Callable[[int], tuple[Any, ...]], turned: str = "", states: int = 0
) -> dict[str, Callable[[], JaxLoop]]:
    """Loops of JAX of functions whose result is their next state.

    Args:
        steps: the functions, by name; called with JAX, the state and the other arrays.
        made: makes the tensors; the first one is the state.
        turned: the name of the one that takes tokens before heads.
        states: how many arrays the state has, where it is a tuple; all but the first are results alone.
    """

    def loop(name: str) -> JaxLoop:
        import jax

        def of(tensor: Any) -> Any:
            return rivals.jax_array(tensor.transpose(1, 2) if name == turned else tensor)

        first, *arrays = (of(each) for each in made(0))
        state = (first, *(arrays[-1] for _ in range(states - 1))) if states else first
        back = (lambda value: value.transpose(0, 2, 1, 3)) if name == turned else None
        return JaxLoop(lambda value, *more: steps[name](jax, value, *more), state, tuple(arrays), back)

    return {name: functools.partial(loop, name) for name in steps}
