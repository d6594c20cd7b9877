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

from .torch_bytes import bind, tensors_in, touched_elements
from .torch_formulas import formula_of, has_formula, moves

__all__ = ["flops_of", "per_element"]

# Moving, selecting or making values is no arithmetic.
_MOVES = frozenset({
    "clone", "where", "masked_fill", "alias", "detach", "contiguous", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_not", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "_conj_physical",
    "_conj", "conj_physical", "real", "imag", "view_as_real", "any", "all",
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
    "native_dropout_backward": 2,
}
# Real FLOPs of one operation on complex numbers; of the others no number is given.
_COMPLEX = {"add": 2, "sub": 2, "rsub": 2, "neg": 2, "mul": 6, "abs": 4, "sum": 2, "cumsum": 2}
_WITH_REAL = {"add": 1, "sub": 1, "rsub": 1, "mul": 2}  # where one of the operands is real
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


def flops_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float | None:
    """FLOPs of one call of an ATen operation, None where nobody knows.

    Contractions by torch's own formulas, others by `torch_formulas` and `costs`, elementwise ones one per element.
    """
    import torch

    packet, name = func.overloadpacket, func._schema.name.split("::")[-1]
    first = next((a for a in args if isinstance(a, torch.Tensor)), None)
    if packet in _registry() or name in _CONTRACTIONS:
        return _contraction(func, name, args, kwargs, out)
    if "scaled_dot_product" in name:
        return _attention(func, name, args, kwargs, out)
    if name.startswith(("_foreach_", "_fused_ad", "_fused_sgd")):
        return _many(name, args, kwargs)
    given = dict(bind(func, args, kwargs))
    accumulates = bool(given.get("accumulate")) or (name.startswith("scatter") and given.get("reduce") is not None)
    if moves(name) and not accumulates:
        return 0
    if not _arithmetic([*tensors_in([*args, *kwargs.values()]), *tensors_in(out)]):
        return 0
    if first is None:
        return None
    operands = list(tensors_in([*args, *kwargs.values()]))
    if any(t.is_complex() for t in operands) and not name.startswith("_fft"):
        return _complex(name, args, kwargs, out)
    if accumulates:
        return touched_elements(name, given)
    if name in ("_softmax", "_log_softmax", "_safe_softmax", "native_layer_norm", "_fused_rms_norm"):
        return _normalisation(name, args, first)
    if has_formula(name):
        return formula_of(name, given, out)
    if name in _REDUCTIONS and not (name in ("max", "min") and func._overloadname == "other"):
        return _reduction(name, first, out)
    if torch.Tag.pointwise in func.tags or name.rstrip("_") in (*_STEPS, *_MOVES):
        return _elementwise(name, kwargs, out if isinstance(out, torch.Tensor) else first)
    return None


def _elementwise(name: str, kwargs: dict[str, Any], result: Any) -> float:
    if name.rstrip("_") == "gelu":
        return costs.gelu(result.numel(), "fp32", form=_gelu_form(kwargs)).flops if result.numel() else 0
    scaled = name.rstrip("_") in ("add", "sub") and kwargs.get("alpha", 1) != 1
    return (per_element(name) + scaled) * result.numel()


def _contraction(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float | None:
    """Products and convolutions: 2 a multiply-add of real numbers, 8 of complex ones, of integers if int8."""
    import torch

    tensors = list(tensors_in(args))
    if any(t.layout != torch.strided for t in tensors):
        return formula_of("_sparse_mm", dict(bind(func, args, kwargs)), out)
    if not (_arithmetic(tensors) or all(t.element_size() == 1 for t in tensors)):
        return 0
    one = 2 if tensors[0].is_complex() else 1  # real FLOPs of an addition
    if name in _CONTRACTIONS:
        return _CONTRACTIONS[name](*args) * one**2
    flops = _registry()[func.overloadpacket](*args, **kwargs, out_val=out)
    if "attention" in name:
        return flops * _causal_share(func, args, kwargs)
    if name == "convolution_backward" and kwargs.get("output_mask", args[-1])[2]:
        return flops + args[0].numel() - args[0].shape[1]
    biased = (name in ("addmm", "baddbmm") and kwargs.get("beta", 1)) or (name == "convolution" and len(tensors) > 2)
    return flops * one**2 + (one * out.numel() if biased else 0)


def _complex(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float | None:
    """FLOPs on complex numbers, in real ones."""
    name = name.removesuffix("_")
    if name in _MOVES:
        return 0
    if name not in _COMPLEX or kwargs.get("alpha", 1) != 1:
        return None
    if name == "sum":
        return _COMPLEX[name] * (args[0].numel() - out.numel())
    both = all(a.is_complex() if hasattr(a, "is_complex") else isinstance(a, complex) for a in args[:2])
    return (_COMPLEX[name] if both or name not in _WITH_REAL else _WITH_REAL[name]) * out.numel()


def _gelu_form(kwargs: dict[str, Any]) -> str:
    return "tanh" if kwargs.get("approximate") == "tanh" else "erf"


def _reduction(name: str, first: Any, out: Any) -> float:
    """FLOPs of a reduction; a plain sum of n elements into m takes n - m additions."""
    if _REDUCTIONS[name] == 1 and not name.startswith("cum") and first.numel():
        result = out[0] if isinstance(out, tuple | list) else out
        return first.numel() - result.numel() + (result.numel() if name == "mean" else 0)
    return _REDUCTIONS[name] * first.numel()


def _arithmetic(tensors: list[Any]) -> bool:
    """Whether floating-point numbers take part: index arithmetic on integers is no FLOP."""
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


def _many(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    """Operations on lists of tensors, as optimizers use them: FLOPs per element of the first list."""
    elements = sum(t.numel() for t in args[0])
    if not _arithmetic(list(args[0])):
        return 0
    if any(t.is_complex() for t in args[0]):
        return None
    if name.startswith("_fused_adam"):
        return costs.optimizer_step(elements, kind="adamw").flops if elements else 0
    if name.startswith("_fused_sgd"):
        kind = "momentum" if kwargs.get("momentum") else "sgd"
        more = 2 * bool(kwargs.get("weight_decay")) + 2 * bool(kwargs.get("nesterov"))  # g += w p; g += mu m
        return costs.optimizer_step(elements, kind=kind).flops + more * elements if elements else 0
    name = name.removeprefix("_foreach_").removesuffix("_")
    if moves(name):
        return 0
    if name in _REDUCTIONS:
        return _REDUCTIONS[name] * elements
    if name not in _STEPS and not _is_pointwise(name):
        return None
    scaled = name in ("add", "sub") and kwargs.get("alpha", 1) != 1
    return (per_element(name) + scaled) * elements


@cache
def _is_pointwise(name: str) -> bool:
    import torch

    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())


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
