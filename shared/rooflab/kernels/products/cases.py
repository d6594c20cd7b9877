"""Products of matrices against cuBLAS, at large sizes and at sizes that no tile divides.

>>> [size for size in SIZES if 1000 in size]
[(4096, 4096, 1000), (4096, 1000, 4096)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflab.kernels.benchmark import Case

from . import matvec_cases

__all__ = ["FP8_SIZES", "MLP_SIZES", "SIZES", "cases"]

# M, N and K; 1000 is no multiple of a tile, 14336 as in the layers of a language model.
SIZES = (
    (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 1000), (4096, 4096, 14336),
    (4096, 1000, 4096), (4096, 14336, 4096),
)  # fmt: skip
MLP_SIZES = ((65536, 3072, 768),)  # of GPT-2-small, at the batch of the speedrun
FP8_SIZES = ((4096, 4096, 4096), (8192, 8192, 8192))


def cases(
    sizes: tuple[tuple[int, int, int], ...] = SIZES,
    fp8_sizes: tuple[tuple[int, int, int], ...] = FP8_SIZES,
    device: str = "cuda",
    thin_sizes: tuple[tuple[int, int, int], ...] = matvec_cases.SIZES,
    mlp_sizes: tuple[tuple[int, int, int], ...] = MLP_SIZES,
) -> Iterator[Case]:
    """Yield every product at every size (M, N, K), those with few rows at others."""
    for size in sizes:
        yield _matmul(*size, device)
    for size in fp8_sizes:
        for kind in ("tensor", "row", "block"):
            yield _scaled(*size, kind, device)
    for size in mlp_sizes:
        yield from _squared_relu(*size, device)
    yield from matvec_cases.cases(thin_sizes, device)


def _normal(shape: tuple[int, ...], seed: int, device: str) -> Any:
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=device)


def _matmul(m: int, n: int, k: int, device: str) -> Case:
    import torch

    from .torch_matmul import matmul

    def made(seed: int) -> tuple[Any, ...]:
        shapes = ((m, k), (k, n))
        return tuple(_normal(each, 2 * seed + place, device).bfloat16() for place, each in enumerate(shapes))

    candidates: dict[str, Callable[..., Any]] = {"cublas": torch.matmul, "rooflab": matmul}
    return Case("matmul", f"{m} x {n} x {k}", made, candidates, "cublas", torch.matmul, k)


def _squared_relu(m: int, n: int, k: int, device: str) -> Iterator[Case]:
    """A product with a squared ReLU in it, and the gradient of that; beside the library's product, which does less."""
    import torch

    from .torch_squared_relu import gradient, product

    def forward(x: Any, w: Any) -> Any:
        return (x @ w.t()).relu().square()

    def backward(dy: Any, v: Any, a: Any) -> Any:
        return 2 * a.sqrt() * (dy @ v)

    def made(seed: int) -> tuple[Any, ...]:
        x, w = _normal((m, k), 2 * seed, device), _normal((n, k), 2 * seed + 1, device) / k**0.5
        return x.bfloat16(), w.bfloat16()

    def given(seed: int) -> tuple[Any, ...]:
        x, w = made(seed)
        return x, w.t().contiguous(), forward(x, w)

    size = f"{m} x {n} x {k}"
    one: dict[str, Callable[..., Any]] = {"product": lambda x, w: x @ w.t(), "rooflab": product, "eager": forward}
    yield Case("squared_relu", size, made, one, "product", forward, k, 0.95)
    two: dict[str, Callable[..., Any]] = {
        "product": lambda dy, v, a: torch.mm(dy, v), "rooflab": gradient, "eager": backward,
    }  # fmt: skip
    yield Case("squared_relu_gradient", size, given, two, "product", backward, k, 0.9)


def _scaled(m: int, n: int, k: int, kind: str, device: str) -> Case:
    """One kind of scales; where the library has no kernel for blocks, its rival is the one with a scale for a row."""
    import torch

    from .torch_scaled_matmul import scaled_matmul

    has_blocks = _has_blocks()

    scales = {
        "tensor": ((1, 1), (1, 1)),
        "row": ((m, 1), (1, n)),
        "block": ((-(-k // 128), m), (-(-k // 128), -(-n // 128))),
    }[kind]

    def made(seed: int) -> tuple[Any, ...]:
        a, b = (_normal(shape, 4 * seed + place, device) for place, shape in enumerate(((m, k), (n, k))))
        sa, sb = (_normal(shape, 4 * seed + 2 + place, device).abs() + 0.5 for place, shape in enumerate(scales))
        fp8 = torch.float8_e4m3fn
        return a.to(fp8), b.to(fp8).t(), sa.t() if kind == "block" else sa, sb

    def right(a: Any, b: Any, sa: Any, sb: Any) -> Any:
        if kind == "block":
            sa = sa.repeat_interleave(128, 1)[:, :k]
            sb = sb.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
            return (a * sa) @ (b * sb)
        return (a @ b) * sa * sb

    def library(a: Any, b: Any, sa: Any, sb: Any) -> Any:
        if kind == "block" and has_blocks:
            sb = sb.t().contiguous().t()
        elif kind == "block":
            sa, sb = a.new_ones(m, 1, dtype=torch.float32), b.new_ones(1, n, dtype=torch.float32)
        return torch._scaled_mm(a, b, sa, sb, out_dtype=torch.bfloat16)

    candidates: dict[str, Callable[..., Any]] = {"scaled_mm": library, "rooflab": scaled_matmul}
    return Case(f"scaled_matmul_{kind}", f"{m} x {n} x {k}", made, candidates, "scaled_mm", right, k, 0.9)


def _has_blocks() -> bool:
    """Whether torch's library multiplies with scales of blocks: on Hopper, from CUDA 12.9 on."""
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        return False
    version = tuple(map(int, torch.version.cuda.split(".")[:2]))
    return version >= (12, 9) and torch.cuda.get_device_capability()[0] == 9
