"""What does a step of a small multilayer perceptron cost, and what part of it is which kernel?

>>> mlp([784, 256, 10], 64, "fp32").flops       # 2 * 64 * (784 * 256 + 256 * 10), bias and ReLU
26051200
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from rooflab.units import bytes_of

from .operators import elementwise, linear, matmul, reduction
from .optimizer import check_kind, optimizer_step
from .work import Work, check_counts, check_flag

__all__ = ["mlp", "mlp_params", "mlp_parts"]


def mlp_params(widths: Sequence[int]) -> int:
    """Return the parameters of an MLP with layers of `widths`: a matrix and a bias, (i + 1) o, for each pair."""
    return sum((i + 1) * o for i, o in pairwise(_whole(widths)))


def mlp(widths: Sequence[int], batch: int, dtype: str, *, training: bool = False, optimizer: str = "sgd") -> Work:
    """One forward pass of an MLP or, with `training`, one whole step; the sum of `mlp_parts`.

    FLOPs: about 2 B P forward and 6 B P a step, less the input gradient of the first layer (B: batch, P: parameters).

    Args:
        widths: width of the input, of each hidden layer and of the output.
        batch: examples B.
        dtype: format of everything.
        training: whether loss, backward pass and update are included.
        optimizer: the kind of update, see `optimizer_step`.
    """
    parts = mlp_parts(widths, batch, dtype, training=training, optimizer=optimizer)
    return replace(sum(parts.values(), start=Work(launches=0, dtype=dtype)), name="mlp step" if training else "mlp")


def mlp_parts(
    widths: Sequence[int], batch: int, dtype: str, *, training: bool = False, optimizer: str = "sgd"
) -> dict[str, Work]:
    """The same step kernel by kernel, as an eager framework runs it, in order.

    Forward, layer (i, o): one kernel for x W + b (2 B i o + B o FLOPs); ReLU after all but the last.
    Loss: mean squared error, forward and backward.
    Backward, layer: weight gradient x^T g (2 B i o), bias gradient (sum over the batch), and, except in the first
    layer, input gradient g W^T (2 B i o) and the ReLU's mask. Update: one fused kernel over all parameters.
    """
    widths = _whole(widths)
    (batch,) = check_counts(batch=batch)
    training = check_flag("training", training)
    check_kind(optimizer)
    parts: dict[str, Work] = {}
    layers = list(pairwise(widths))
    for number, (i, o) in enumerate(layers, 1):
        parts[f"linear {number}"] = linear(batch, i, o, dtype)
        if number < len(layers):
            parts[f"relu {number}"] = elementwise(batch * o, dtype=dtype)
    if training:
        parts |= _backward(layers, batch, dtype)
        parts["update"] = optimizer_step(mlp_params(widths), kind=optimizer, dtype=dtype)
    return {name: replace(work, name=name) for name, work in parts.items()}


def _backward(layers: Sequence[tuple[int, int]], batch: int, dtype: str) -> dict[str, Work]:
    outputs = batch * layers[-1][1]
    s = bytes_of(dtype)
    parts = {
        "loss": Work(3 * outputs, 2 * s * outputs, s, dtype=dtype),  # subtract, square, add
        "loss backward": elementwise(outputs, reads=2, dtype=dtype, flops_per_element=2),  # subtract, scale
    }
    for number in range(len(layers), 0, -1):
        i, o = layers[number - 1]
        parts[f"weight gradient {number}"] = matmul(i, o, batch, dtype)
        parts[f"bias gradient {number}"] = reduction(batch * o, dtype, outputs=o)
        if number > 1:
            parts[f"input gradient {number}"] = matmul(batch, i, o, dtype)
            parts[f"relu backward {number - 1}"] = elementwise(batch * i, reads=2, dtype=dtype)
    return parts


def _whole(widths: Sequence[int]) -> list[int]:
    in_order = hasattr(widths, "__len__") and hasattr(widths, "__getitem__") and getattr(widths, "ndim", 1) == 1
    if isinstance(widths, str | bytes | Mapping) or not in_order:
        raise TypeError(f"expected the widths in a list, as in [784, 256, 10]; found {widths!r:.60}")
    if len(widths) < 2:
        raise ValueError(f"expected at least two widths, input and output; found {list(widths)}")
    return [check_counts(width=width)[0] for width in widths]
