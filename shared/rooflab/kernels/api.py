"""The kernels as functions of PyTorch's tensors or JAX's arrays: which framework is it, and where is its kernel?

>>> import torch
>>> rms_norm(torch.full((1, 4), 3.0), torch.ones(4)).round(decimals=3)
tensor([[1., 1., 1., 1.]])
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from rooflab.extras import MissingExtra

from .demands import framework, number, refuse
from .launching import need_triton, ready

__all__ = [
    "add_layer_norm", "add_rms_norm", "function_for", "gelu", "layer_norm", "load", "matmul",
    "rms_norm", "scaled_matmul", "softmax", "swiglu",
]  # fmt: skip

# Where the functions of each framework are. They are looked up in plain dicts, which torch.compile can follow.
_MODULES = {
    "softmax": "rows.torch_softmax",
    "rms_norm": "rows.torch_norm",
    "layer_norm": "rows.torch_norm",
    "add_rms_norm": "rows.torch_norm",
    "add_layer_norm": "rows.torch_norm",
    "gelu": "pointwise.torch_pointwise",
    "swiglu": "pointwise.torch_pointwise",
    "matmul": "products.torch_matmul",
    "matvec": "products.torch_matvec",
    "squared_relu_mlp": "products.torch_squared_relu",
    "scaled_matmul": "products.torch_scaled_matmul",
    "linear_cross_entropy": "loss.torch_linear_cross_entropy",
    "cross_entropy_with_gradient": "loss.torch_cross_entropy",
    "attention": "attend.torch_attention",
    "attention_decode": "attend.torch_decode",
    "rotary_heads": "attend.torch_heads",
    "quantize_fp8": "quantize.torch_quantize",
    "quantize_mx": "quantize.torch_quantize",
    "quantize_nvfp4": "quantize.torch_quantize",
    "quantize_weights": "quantize.weights",
}
_JAX_MODULES = {
    "softmax": "rows.pallas_softmax",
    "rms_norm": "rows.pallas_norm",
    "layer_norm": "rows.pallas_norm",
    "matmul": "products.pallas_matmul",
    "attention": "attend.pallas_attention",
}
_OPTIONAL = ("bias", "scale", "zero")
_torch: dict[str, Callable[..., Any]] = {}
_jax: dict[str, Callable[..., Any]] = {}
_tensors: Any = ()  # kinds of tensors
_forward_mode: Any = None  # torch.autograd.forward_ad


def softmax(x: Any) -> Any:
    """Softmax over the last dimension, in one pass over memory.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.

    Returns:
        the same shape and format. As in torch, a row with NaN or plus infinity in it, or nothing but minus infinity, is
        NaN.
    """
    return function_for(x, "softmax")(x)


def rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    """Divide each row by its root mean square and multiply by a weight: x / sqrt(mean(x^2) + eps) * weight.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        weight: of shape [n].
        eps: added to the mean square.

    Returns:
        the shape and format of `x`. Source: Zhang and Sennrich 2019.
    """
    return function_for(x, "rms_norm", weight=weight)(x, weight, number("rms_norm", "eps", eps, least=0))


def layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    """Subtract each row's mean, divide by its standard deviation, multiply by a weight and add a bias.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        weight: of shape [n].
        bias: of shape [n].
        eps: added to the variance.

    Returns:
        the shape and format of `x`. Source: Ba et al. 2016.
    """
    found = function_for(x, "layer_norm", weight=weight, bias=bias)
    return found(x, weight, bias, number("layer_norm", "eps", eps, least=0))


def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    """Add a residual and take RMS norm of the sum, in one pass over memory.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        residual: of the same shape and format.
        weight: of shape [n].
        eps: added to the mean square.

    Returns:
        the normalized sum, and the sum itself, for the next residual; both of the shape and format of `x`.
    """
    found = function_for(x, "add_rms_norm", residual=residual, weight=weight)
    return found(x, residual, weight, number("add_rms_norm", "eps", eps, least=0))


def add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float = 1e-5) -> tuple[Any, Any]:
    """Add a residual and take layer norm of the sum, in one pass over memory.

    Args:
        x: of shape [..., n], float32, bfloat16 or float16; n at most 65,536.
        residual: of the same shape and format.
        weight: of shape [n].
        bias: of shape [n], or None.
        eps: added to the variance.

    Returns:
        the normalized sum, and the sum itself, for the next residual; both of the shape and format of `x`.
    """
    found = function_for(x, "add_layer_norm", residual=residual, weight=weight, bias=bias)
    return found(x, residual, weight, bias, number("add_layer_norm", "eps", eps, least=0))


def gelu(x: Any, form: str = "erf") -> Any:
    """Gaussian error linear unit of each element: x times the normal distribution function of x.

    Args:
        x: of any shape, float32, bfloat16 or float16.
        form: "erf", or "tanh" for the approximation of GPT-2.

    Returns:
        the same shape and format. Source: Hendrycks and Gimpel 2016.
    """
    return function_for(x, "gelu")(x, form)


def swiglu(gate: Any, up: Any) -> Any:
    """Let `up` through a gate, element by element: gate / (1 + exp(-gate)) * up.

    Args:
        gate: of any shape, float32, bfloat16 or float16; both may be halves of one tensor's last dimension.
        up: of the same shape.

    Returns:
        the shape and format of `gate`. Source: Shazeer 2020.
    """
    return function_for(gate, "swiglu", up=up)(gate, up)


def matmul(a: Any, b: Any) -> Any:
    """Product of matrices, with sums in fp32 (of fp32 too: nothing is cut to TF32), rounded once.

    Args:
        a: of shape [..., M, K], float32, bfloat16 or float16.
        b: of shape [K, N], the same format. Either may be transposed; strides that the copy engine cannot follow (not
            multiples of 16 bytes, or no dimension side by side) cost a copy.

    Returns:
        of shape [..., M, N], contiguous; under autocast in its format.
    """
    return function_for(a, "matmul", b=b)(a, b)


def scaled_matmul(a: Any, b: Any, a_scale: Any, b_scale: Any, *, dtype: Any = None, exact: bool = True) -> Any:
    """Product of fp8 matrices (e4m3) that have scales; without a gradient.

    Args:
        a: of shape [M, K].
        b: of shape [K, N]; stored transposed, as of a linear layer, it needs no copy.
        a_scale: in float32: one number; [M], of each row; or [M, K / 128], of each 128 elements of a row.
        b_scale: in float32: one number; [N], of each column; or [K / 128, N / 128], of each block (all rounded up).
        dtype: of the result (default: bfloat16).
        exact: whether sums of 128 terms are added up in fp32, since Hopper's matrix units keep about 14 bits of a sum;
            without it products with a number or rows as scales are faster.

    Returns:
        of shape [M, N]. Source: DeepSeek-AI 2024, section 3.3.
    """
    found = function_for(a, "scaled_matmul", b=b, a_scale=a_scale, b_scale=b_scale)
    return found(a, b, a_scale, b_scale, dtype=dtype, exact=exact)


def load() -> None:
    """Load the kernels of PyTorch, if this process uses it and its kernels can run; those of JAX wait for an array.

    Nothing is said here of what is missing: perhaps the other framework is the one that is used.
    """
    if "torch" in sys.modules:
        with contextlib.suppress(MissingExtra):
            _load_torch()


def _load_torch() -> None:
    global _tensors, _forward_mode
    if not _torch:
        import torch
        from torch.autograd import forward_ad

        ready()
        # Without Triton those for Apple's GPUs can be had, and no other.
        missing = [] if importlib.util.find_spec("triton") else [ModuleNotFoundError]
        for name, module in _MODULES.items():
            with contextlib.suppress(*missing):
                _torch[name] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        _tensors, _forward_mode = (torch.Tensor,), forward_ad


def function_for(x: Any, name: str, **others: Any) -> Callable[..., Any]:
    """Return the kernel's function for the framework of an array.

    Args:
        x: the array.
        name: of the kernel.
        others: the other arrays that it is given, by name; a bias, scale or zero point may be None.

    Raises:
        TypeError: x is of neither framework, there is no such kernel for its framework, or another one is no array.
        ValueError: a derivative is asked for in forward mode, which PyTorch would take to be zero.
    """
    if isinstance(x, _tensors) and name in _torch:
        _refuse_others(x, name, others)
        return _torch[name]
    return _elsewhere(x, name, others)


def _refuse_others(x: Any, name: str, others: dict[str, Any]) -> None:
    for what, each in others.items():
        if not (isinstance(each, _tensors) or (each is None and what in _OPTIONAL)):
            if framework(each) == "jax":
                raise TypeError(f"{name} got arrays of two frameworks ({what} is of jax): convert them to one.")
            raise TypeError(f"{name} takes tensors; {what} is a {type(each).__name__}.")
    every = (x, *others.values())
    for each in every:
        if isinstance(each, _tensors) and each.is_nested:
            refuse(name, "expected tensors of one shape; found a nested one: take its parts (unbind), or fill them up.")
    if _forward_mode._current_level < 0:
        return
    for each in every:
        # An operator without a rule for it drops the tangent, and says nothing.
        if isinstance(each, _tensors) and _forward_mode.unpack_dual(each).tangent is not None:
            refuse(name, "it has no derivative in forward mode (jvp, jacfwd): use backward().")


def _elsewhere(x: Any, name: str, others: dict[str, Any]) -> Callable[..., Any]:
    """The kernel's function for an array of JAX, or for the first tensor of PyTorch."""
    found = framework(x)
    if found == "torch":
        _load_torch()
        if name not in _torch:
            need_triton()
        _refuse_others(x, name, others)
        return _torch[name]
    if found != "jax" or name not in _JAX_MODULES:
        both = "a tensor of PyTorch" + (" or an array of JAX" if name in _JAX_MODULES else "")
        raise TypeError(f"{name} takes {both}; found a {type(x).__name__}.")
    if name not in _jax:
        _jax[name] = getattr(importlib.import_module(f"{__package__}.{_JAX_MODULES[name]}"), name)
    return _jax[name]
