"""Kernels over rows against their rivals, at rows of 1,024 to 32,768 elements in bf16.

>>> [size for size in SIZES if size[1] == 4096]
[(16384, 4096)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels import rivals
from rooflab.kernels.benchmark import Case, JaxLoop

__all__ = ["SIZES", "cases", "random_sets"]

SIZES = ((16384, 1024), (16384, 4096), (8192, 8192), (4096, 16384), (2048, 32768))
_EPS = 1e-5


def cases(sizes: tuple[tuple[int, int], ...] = SIZES, device: str = "cuda") -> Iterator[Case]:
    """Yield every kernel over rows at every size, forward and backward."""
    for rows, cols in sizes:
        yield from _softmax(rows, cols, device)
        for centred in (False, True):
            yield from _norm(rows, cols, device, centred)
        yield _added(rows, cols, device)


def random_sets(device: str, *shapes: tuple[int, ...]) -> Callable[[int], tuple[Any, ...]]:
    """Return a function that makes normal numbers in bf16 of some shapes from a seed."""
    import torch

    def made(seed: int) -> tuple[Any, ...]:
        generator = torch.Generator(device=device).manual_seed(seed)
        return tuple(
            torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(torch.bfloat16)
            for shape in shapes
        )

    return made


def _softmax(rows: int, cols: int, device: str) -> Iterator[Case]:
    import torch

    from .torch_softmax import softmax, softmax_backward

    aten, made, size = torch.ops.aten, random_sets(device, (rows, cols), (rows, cols)), f"{rows} x {cols}"
    forward = {"copy": torch.clone, "rooflab": softmax, "eager": lambda x: torch.softmax(x, -1)}
    forward["compiled"] = rivals.compiled(lambda x: torch.softmax(x, -1))
    backward = {
        "add": torch.add, "rooflab": softmax_backward,
        "eager": lambda y, dy: aten._softmax_backward_data(dy, y, -1, y.dtype),
        "compiled": rivals.compiled(lambda y, dy: aten._softmax_backward_data(dy, y, -1, y.dtype)),
    }  # fmt: skip
    if (library := rivals.liger("softmax")) is not None:
        forward["liger"] = lambda x: library._softmax_forward(x)[0]
    yield Case(
        "softmax", size, lambda seed: made(seed)[:1], forward, "copy", lambda x: x.softmax(-1), cols, leads=True,
        jax=_jax(lambda jax, x: jax.nn.softmax(x, -1), made, 1),
    )  # fmt: skip
    yield Case(
        "softmax_backward", size, lambda seed: (made(seed)[0].float().softmax(-1).bfloat16(), made(seed)[1]), backward,
        "add", lambda y, dy: y * (dy - (y * dy).sum(-1, keepdim=True)), cols, leads=True,
    )  # fmt: skip


def _norm(rows: int, cols: int, device: str, centred: bool) -> Iterator[Case]:
    import torch

    from .torch_norm import norm, norm_backward

    functional, size = torch.nn.functional, f"{rows} x {cols}"
    name = "layer_norm" if centred else "rms_norm"
    made = random_sets(device, (rows, cols), (cols,), (cols,), (rows, cols))

    def right(x: Any, w: Any, b: Any) -> Any:
        return functional.layer_norm(x, (cols,), w, b, _EPS) if centred else functional.rms_norm(x, (cols,), w, _EPS)

    candidates: dict[str, Callable[..., Any]] = {
        "copy": lambda x, w, b: x.clone(),
        "rooflab": lambda x, w, b: norm(x, None, w, b if centred else None, _EPS, centred)[0],
        "eager": right,
        "compiled": rivals.compiled(right),
    }
    library = rivals.liger(name)
    if library is not None:
        candidates["liger"] = (
            (lambda x, w, b: library.layer_norm_forward(x, w, b, _EPS)[0])
            if centred
            else (lambda x, w, b: library.rms_norm_forward(x, w, _EPS, 0.0, "llama", None)[0])
        )

    def in_jax(jax: Any, x: Any, w: Any, b: Any) -> Any:
        v = x.astype("float32")
        v = v - v.mean(-1, keepdims=True) if centred else v
        v = v * jax.lax.rsqrt((v * v).mean(-1, keepdims=True) + _EPS) * w
        return (v + b if centred else v).astype(x.dtype)

    yield Case(name, size, lambda seed: made(seed)[:3], candidates, "copy", right, cols, jax=_jax(in_jax, made, 3))

    def with_statistics(seed: int) -> tuple[Any, ...]:
        x, w, b, dy = made(seed)
        _, _, mean, rstd = norm(x, None, w, b if centred else None, _EPS, centred)
        return dy, x, w, b, mean, rstd

    yield Case(
        f"{name}_backward", size, with_statistics, _norm_backward(norm_backward, library, cols, centred), "add",
        lambda dy, x, w, b, mean, rstd: _gradient(right, centred)(dy, x, w, b), max(rows, cols), 0.9,
    )  # fmt: skip


def _norm_backward(ours: Any, library: Any, cols: int, centred: bool) -> dict[str, Callable[..., Any]]:
    """Candidates for the gradients with regard to x, the weight and, of layer norm, the bias."""
    import torch

    aten = torch.ops.aten
    candidates: dict[str, Callable[..., Any]] = {
        "add": lambda dy, x, *_: torch.add(dy, x),
        "rooflab": lambda dy, x, w, b, mean, rstd: ours(dy, None, x, w, mean, rstd, centred),
    }

    def formula(dy: Any, x: Any, w: Any, mean: Any, rstd: Any) -> tuple[Any, ...]:
        n = x.float() - mean[:, None] if centred else x.float()
        n, d = n * rstd[:, None], dy.float()
        g = d * w.float()
        dx = g - n * (n * g).mean(-1, keepdim=True)
        dx = (dx - g.mean(-1, keepdim=True) if centred else dx) * rstd[:, None]
        sums = ((d * n).sum(0).to(w.dtype), *((d.sum(0).to(w.dtype),) if centred else ()))
        return dx.to(x.dtype), *sums

    fast = rivals.compiled(formula)
    candidates["compiled"] = lambda dy, x, w, b, mean, rstd: fast(dy, x, w, mean, rstd)
    on_gpu = torch.cuda.is_available()  # on a CPU torch keeps the statistics in another format, or has no such kernel
    if centred and on_gpu:
        candidates["eager"] = lambda dy, x, w, b, mean, rstd: aten.native_layer_norm_backward(
            dy, x, (cols,), mean[:, None], rstd[:, None], w, b, [True, True, True]
        )
    elif on_gpu and hasattr(aten, "_fused_rms_norm_backward"):
        candidates["eager"] = lambda dy, x, w, b, mean, rstd: aten._fused_rms_norm_backward(
            dy, x, (cols,), rstd[:, None], w, [True, True]
        )
    if library is not None and centred:
        candidates["liger"] = lambda dy, x, w, b, mean, rstd: library.layer_norm_backward(dy, x, w, b, mean, rstd)
    elif library is not None:
        block, warps = rivals.liger("utils").calculate_settings(cols)
        candidates["liger"] = lambda dy, x, w, b, mean, rstd: library.rms_norm_backward(
            dy, x, w, rstd, 0.0, 0, block, warps, False, None
        )
    return candidates


def _gradient(function: Callable[..., Any], centred: bool) -> Callable[..., Any]:
    """The gradients that torch derives, in fp32."""
    import torch

    def found(dy: Any, x: Any, w: Any, b: Any) -> Any:
        leaves = [each.detach().clone().requires_grad_() for each in (x, w, b)]
        wanted = leaves if centred else leaves[:2]
        return torch.autograd.grad(function(*leaves), wanted, dy)

    return found


def _added(rows: int, cols: int, device: str) -> Case:
    import torch

    from .torch_norm import add_rms_norm

    functional = torch.nn.functional

    def right(x: Any, r: Any, w: Any) -> Any:
        return functional.rms_norm(x + r, (cols,), w, _EPS), x + r

    candidates: dict[str, Callable[..., Any]] = {
        "traffic": lambda x, r, w: (x.clone(), r.clone()),
        "rooflab": lambda x, r, w: add_rms_norm(x, r, w, _EPS),
        "eager": right,
        "compiled": rivals.compiled(right),
    }
    if (library := rivals.liger("fused_add_rms_norm")) is not None:
        candidates["liger"] = lambda x, r, w: library.fused_add_rms_norm_forward(x, r, w, _EPS, 0.0, "llama")[:2]
    made = random_sets(device, (rows, cols), (rows, cols), (cols,))
    return Case("add_rms_norm", f"{rows} x {cols}", made, candidates, "traffic", right, cols)


def _jax(step: Callable[..., Any], made: Callable[[int], tuple[Any, ...]], used: int) -> dict[str, Any]:
    """JAX's candidate, where JAX has the GPU."""
    if not rivals.has_jax():
        return {}

    def loop() -> JaxLoop:
        import jax

        state, *arrays = (rivals.jax_array(each) for each in made(0)[:used])
        return JaxLoop(lambda x, *more: step(jax, x, *more), state, tuple(arrays))

    return {"jax": loop}
