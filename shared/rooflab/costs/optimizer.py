"""What does the update of the parameters cost?

It has no reuse: each parameter, gradient and state is read once and written once, so it is bound by bandwidth.

>>> optimizer_step(1_000_000, kind="adamw").bytes     # 4 read and 3 written, 4 bytes each: 28 a parameter
28000000
"""

from __future__ import annotations

from rooflab.units import bytes_of

from .work import Work, check_counts, check_flag

__all__ = ["OPTIMIZERS", "newton_schulz", "optimizer_step", "state_bytes"]

OPTIMIZERS = ("sgd", "momentum", "adamw", "adamw8bit", "muon")

# kind -> (state arrays, FLOPs a parameter).
_FUSED: dict[str, tuple[int, int]] = {
    # p -= lr g
    "sgd": (0, 2),
    # m = mu m + g; p -= lr m
    "momentum": (1, 4),
    # m = a m + b g (3); v = c v + d g g (4); m / c1, v / c2 (2); sqrt, + eps, divide (3); p *= 1 - lr w (1);
    # p -= lr u (2)
    "adamw": (2, 15),
    # as adamw, and for each of two states: scale up, compare for the block's maximum, scale down (3)
    "adamw8bit": (2, 21),
}
# kind -> the kernels of the unfused form, each (arrays read, arrays written).
_UNFUSED: dict[str, tuple[tuple[int, int], ...]] = {
    "sgd": ((2, 1),),
    "momentum": ((1, 1), (2, 1), (2, 1)),  # m *= mu; m += g; p -= lr m
    # p *= .; m = lerp(m, g); v *= .; v += . g g; d = sqrt v; d /= .; d += eps; p -= . m / d
    "adamw": ((1, 1), (2, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 1), (3, 1)),
}


def state_bytes(parameters: int, *, kind: str = "adamw", dtype: str = "fp32", block: int = 256) -> float:
    """Return the bytes of optimizer state: s a parameter and state array; for 8 bits, 1 and an fp32 scale a block.

    Source: Dettmers et al. 2022 (blocks; 256 values is the block of bitsandbytes' optimizers, 2,048 the paper's).
    """
    parameters, block = check_counts(parameters=parameters, block=block)
    check_kind(kind)
    if kind == "adamw8bit":
        return 2 * (parameters + 4 * -(-parameters // block))
    return parameters * bytes_of(dtype) * (1 if kind == "muon" else _FUSED[kind][0])


def optimizer_step(
    parameters: int,
    *,
    kind: str = "adamw",
    dtype: str = "fp32",
    fused: bool = True,
    tensors: int = 1,
    shape: tuple[int, int] | None = None,
    block: int = 256,
) -> Work:
    """One update of `parameters` parameters.

    Bytes, fused: s(2 + k) read (parameter, gradient, k states), s(1 + k) written; k = 0 sgd, 1 momentum, 2 adamw.
    FLOPs a parameter: sgd 2, momentum 4, adamw 15 (square root and division one each), adamw8bit 21.
    Bytes, not fused: each operation of the formula is a kernel per tensor and reads and writes its arrays, in adamw
    12 arrays read and 8 written.
    Muon: momentum, then `newton_schulz` on every matrix, then the update.
    Sources: Loshchilov and Hutter 2019 (adamw), Dettmers et al. 2022 (adamw8bit), Jordan et al. 2024 (muon).

    Args:
        parameters: number of parameters.
        kind: one of `OPTIMIZERS`.
        dtype: format of parameters, gradients and states (8-bit states are one byte).
        fused: one kernel in all; otherwise one for each operation and tensor.
        tensors: parameter tensors, which count when not fused.
        shape: rows and columns of each matrix (muon only).
        block: parameters that share one scale (adamw8bit only).

    Raises:
        ValueError: for an unknown kind, an 8-bit step that is not fused, or a muon step without a fitting shape.
    """
    parameters, tensors, block = check_counts(parameters=parameters, tensors=tensors, block=block)
    check_kind(kind)
    shape = None if shape is None else _whole_shape(shape)
    fused = check_flag("fused", fused)
    if kind == "muon":
        return _muon(parameters, shape, dtype)
    s = bytes_of(dtype)
    states, flops = _FUSED[kind]
    if not fused:
        if kind not in _UNFUSED:
            raise ValueError(f"expected fused=True for {kind}: no unfused form of it is in use")
        reads = sum(r for r, _ in _UNFUSED[kind])
        writes = sum(w for _, w in _UNFUSED[kind])
        launches = len(_UNFUSED[kind]) * tensors
        return Work(flops * parameters, s * reads * parameters, s * writes * parameters, launches, dtype, kind)
    state = state_bytes(parameters, kind=kind, dtype=dtype, block=block) if states else 0
    return Work(flops * parameters, 2 * s * parameters + state, s * parameters + state, 1, dtype, kind)


def newton_schulz(rows: int, cols: int, *, steps: int = 5, dtype: str = "bf16") -> Work:
    """Orthogonalize a (rows, cols) matrix by Newton-Schulz iterations of degree five, as Muon does.

    FLOPs, with m <= n the two sizes: each step is A = X X^T (2m^2 n), A A (2m^3), B X (2m^2 n) and three small sums
    and scalings that are left out: steps (4 m^2 n + 2 m^3).
    Bytes: each product reads its operands, X and A once where they are both, and writes its result:
    steps s (3 mn + 4 m^2), three kernels a step. Source: Jordan et al. 2024.
    """
    rows, cols, steps = check_counts(rows=rows, cols=cols, steps=steps)
    m, n, s = min(rows, cols), max(rows, cols), bytes_of(dtype)
    flops = 4 * m * m * n + 2 * m**3
    read = s * (m * n + m * m + m * m + m * n)  # X; A; B, X
    written = s * (m * m + m * m + m * n)  # A; A A; B X
    return Work(flops, read, written, 3, dtype, "newton-schulz") * steps


def _muon(parameters: int, shape: tuple[int, int] | None, dtype: str) -> Work:
    if shape is None or parameters % (shape[0] * shape[1]):
        raise ValueError(f"expected shape=(rows, cols) whose product divides the parameters; found {shape!r}")
    s = bytes_of(dtype)
    # u = momentum and Nesterov (4 FLOPs): read g, m; write m, u. p = p (1 - lr w) - lr u (3): read p, u; write p.
    update = Work(7 * parameters, 4 * s * parameters, 3 * s * parameters, 2, dtype, "muon")
    return update + newton_schulz(*shape) * (parameters // (shape[0] * shape[1]))


def _whole_shape(shape: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise ValueError(f"expected shape=(rows, cols); found {shape!r:.60}")
    rows, cols = check_counts(rows=shape[0], cols=shape[1])
    return rows, cols


def check_kind(kind: str) -> None:
    """Refuse what is no optimizer."""
    if kind not in OPTIMIZERS:
        raise ValueError(f"expected an optimizer, one of {', '.join(OPTIMIZERS)}; found {kind!r}")
