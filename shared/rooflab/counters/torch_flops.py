"""How many FLOPs does one ATen operation need, in the conventions of `rooflab.costs`?

>>> per_element("gelu") == per_element("gelu_") and per_element("exp") == 1
True
>>> per_element("clone")
0
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rooflab import costs

__all__ = ["flops_of", "per_element"]

# Moving, selecting or making values is no arithmetic.
_MOVES = frozenset({
    "copy", "clone", "_to_copy", "fill", "zero", "where", "masked_fill", "lift_fresh", "alias", "detach",
    "contiguous", "scalar_tensor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "logical_and",
    "logical_or", "logical_not", "isnan", "isinf", "_conj_physical", "_conj", "real", "imag", "native_dropout",
    "bernoulli",
})  # fmt: skip
# Elementwise operations that are more than one step per element.
_STEPS = {
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
    "rsub": 1,
    "sigmoid_backward": 3,
    "tanh_backward": 3,
    "silu_backward": 5,
}
# FLOPs per element of the operand.
_REDUCTIONS = {
    "sum": 1, "mean": 1, "prod": 1, "amax": 1, "amin": 1, "aminmax": 2, "max": 1, "min": 1, "argmax": 1, "argmin": 1,
    "cumsum": 1, "cumprod": 1, "nansum": 1, "logsumexp": 4, "norm": 2, "linalg_vector_norm": 2, "var": 3, "std": 3,
    "var_mean": 3, "std_mean": 3, "mse_loss": 3, "_softmax_backward_data": 4, "_log_softmax_backward_data": 4,
    "native_layer_norm_backward": 14, "_fused_rms_norm_backward": 11, "gelu_backward": 16,
}  # fmt: skip


@cache
def _registry() -> dict[Any, Any]:
    from torch.utils.flop_counter import FlopCounterMode

    return dict(FlopCounterMode(display=False).flop_registry)


@cache
def per_element(name: str) -> float:
    """FLOPs per element of an elementwise ATen operation (`add`, `add_`, `gelu`, ...)."""
    name = name.removesuffix("_")
    if name in _MOVES:
        return 0
    if name == "gelu":
        return costs.gelu(1, "fp32").flops  # the erf form; `flops_of` looks for the tanh form
    return _STEPS.get(name, 1)


def flops_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    """FLOPs of one call of an ATen operation: contractions by torch's own formulas, the rest one per element."""
    import torch

    packet, name = func.overloadpacket, func._schema.name.split("::")[-1]
    if packet in _registry():
        flops = _registry()[packet](*args, **kwargs, out_val=out)
        if "attention" in name:
            return flops * _causal_share(func, args, kwargs)
        return flops + (out.numel() if name in ("addmm", "baddbmm") else 0)  # the bias
    if "scaled_dot_product" in name:
        return _attention(func, name, args, kwargs, out)
    if name in _CONTRACTIONS:
        return _CONTRACTIONS[name](*args)
    first = next((a for a in args if isinstance(a, torch.Tensor)), None)
    if name.startswith(("_foreach_", "_fused_ad", "_fused_sgd")):
        return _many(name, args)
    if first is None or not _arithmetic(first, out):
        return 0
    if name in ("_softmax", "_log_softmax", "_safe_softmax", "native_layer_norm", "_fused_rms_norm"):
        return _normalisation(name, args, first)
    if name in _REDUCTIONS and not (name in ("max", "min") and func._overloadname == "other"):
        return _reduction(name, first, out)
    if torch.Tag.pointwise in func.tags or name.rstrip("_") in _STEPS:
        result = out if isinstance(out, torch.Tensor) else first
        scaled = name.rstrip("_") in ("add", "sub") and kwargs.get("alpha", 1) != 1
        if name.rstrip("_") == "gelu":
            return costs.gelu(result.numel(), "fp32", form=_gelu_form(kwargs)).flops if result.numel() else 0
        return (per_element(name) + scaled) * result.numel()
    return 0


def _gelu_form(kwargs: dict[str, Any]) -> str:
    return "tanh" if kwargs.get("approximate") == "tanh" else "erf"


def _reduction(name: str, first: Any, out: Any) -> float:
    """FLOPs of a reduction; a plain sum of n elements into m takes n - m additions."""
    if _REDUCTIONS[name] == 1 and not name.startswith("cum") and first.numel():
        result = out[0] if isinstance(out, tuple | list) else out
        return first.numel() - result.numel() + (result.numel() if name == "mean" else 0)
    return _REDUCTIONS[name] * first.numel()


def _arithmetic(first: Any, out: Any) -> bool:
    """Whether floating-point numbers take part: index arithmetic on integers is no FLOP."""
    import torch

    tensors = [first, *([out] if isinstance(out, torch.Tensor) else [])]
    return any(t.is_floating_point() or t.is_complex() for t in tensors)


def _normalisation(name: str, args: tuple[Any, ...], first: Any) -> float:
    if "softmax" in name:
        columns = first.shape[args[1]] if first.dim() else 1
        cost = costs.softmax
    else:
        columns = 1
        for length in args[1]:
            columns *= length
        cost = costs.layer_norm if name == "native_layer_norm" else costs.rms_norm
    return cost(first.numel() // max(columns, 1), columns, "fp32").flops if first.numel() else 0


def _attention(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    """Attention on devices that torch's registry leaves out (CPU, MPS) by its formula for flash attention."""
    import torch

    backward = name.endswith("_backward")
    twin = "_scaled_dot_product_flash_attention" + ("_backward" if backward else "")
    flops = _registry()[getattr(torch.ops.aten, twin)](*args[: 4 if backward else 3], out_val=out)
    return flops * _causal_share(func, args, kwargs)


def _causal_share(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """Share of the score matrix under a causal mask; torch's formulas count all of it."""
    names = [a.name for a in func._schema.arguments]
    values = dict(zip(names, args, strict=False)) | kwargs
    if not values.get("is_causal"):
        return 1.0
    queries, keys = values["query"].shape[-2], values["key"].shape[-2]
    kept = sum(min(q + 1, keys) for q in range(queries))
    return kept / (queries * keys)


def _many(name: str, args: tuple[Any, ...]) -> float:
    """Operations on lists of tensors, as optimizers use them: FLOPs per element of the first list."""
    elements = sum(t.numel() for t in args[0])
    if name.startswith("_fused_adam"):
        return costs.optimizer_step(elements, kind="adamw").flops
    if name.startswith("_fused_sgd"):
        return costs.optimizer_step(elements, kind="sgd").flops
    return per_element(name.removeprefix("_foreach_")) * elements


def _mv(a: Any, x: Any, *rest: Any) -> float:
    return 2 * a.shape[0] * a.shape[1]


_CONTRACTIONS: dict[str, Any] = {
    "mv": _mv,
    "addmv": lambda y, a, *rest: _mv(a, *rest),
    "dot": lambda x, *rest: 2 * x.numel(),
    "vdot": lambda x, *rest: 2 * x.numel(),
    "addr": lambda a, *rest: 2 * a.numel(),
    "_int_mm": lambda a, b: 2 * a.shape[0] * a.shape[1] * b.shape[1],
    "_weight_int8pack_mm": lambda a, b, *rest: 2 * a.shape[0] * a.shape[1] * b.shape[0],
}
