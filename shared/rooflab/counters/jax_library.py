"""What does a library's kernel do, of which XLA knows nothing: a product by cuBLAS, a convolution by cuDNN?

XLA's cost analysis takes -1 FLOP, -1 byte read and written for each custom call, which stands for "unknown". A product
or a convolution says enough of itself in the program: the shapes of its operands, and what it contracts.

>>> call = ('%c = (bf16[64,32]{1,0}, s8[512]{0}) custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", '
...         'backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}')
>>> work_of_call(call, {"a": "bf16[64,128]", "b": "bf16[128,32]"})
Cost(flops=524288, bytes_read=24576, bytes_written=4096)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from .jax_cost import Cost

__all__ = ["work_of_call"]

_KNOWN = re.compile(
    r'custom_call_target="(?:__cublas\$(?:gemm|lt\$matmul)'
    r"|__cudnn\$conv(?:Forward|BackwardInput|BackwardFilter|BiasActivationForward))"
)
_CALL = re.compile(r"= (?P<result>\(.*?\)|\S+) custom-call\((?P<operands>[^)]*)\)")
_SHAPE = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_CONTRACTED = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
_BETA = re.compile(r'"beta":(-?[\d.e+-]+)')
_KERNEL_LABELS = re.compile(r"dim_labels=\w+_(\w+)->")


def work_of_call(line: str, shapes: Mapping[str, str]) -> Cost | None:
    """Return the work of a custom call of an HLO module's text, or None where nothing is known of it.

    A product of (m, k) and (k, n) has 2mnk FLOPs, and one more for each element to which it adds a bias or a third
    operand; a convolution has two FLOPs for each product of an element of its kernel, as if nothing were padded. Every
    operand is read once and every result written once; the library's work space is neither.

    Args:
        line: the instruction.
        shapes: the shape of each instruction before it, such as ``bf16[64,128]``, by name.
    """
    call = _CALL.search(line)
    if call is None or not _KNOWN.search(line):
        return None
    names = re.findall(r"%([\w.\-]+)", call["operands"])
    operands = [array for name in names for array in _arrays(shapes.get(name, ""))[:1]]
    results = _arrays(call["result"])
    if len(results) > 1 and results[-1][0] in ("s8", "u8") and len(results[-1][1]) < 2:
        results.pop()  # the work space
    if len(operands) != len(names) or len(operands) < 2 or not results:
        return None
    count = _product if "gemm_backend_config" in line else _convolution
    flops = count(line, operands, results)
    if flops is None:
        return None
    read = {name: _bytes(array) for name, array in zip(names, operands, strict=True)}  # one that stands twice, once
    return Cost(flops, sum(read.values()), sum(map(_bytes, results)))


_Array = tuple[str, tuple[int, ...]]


def _product(line: str, operands: list[_Array], results: list[_Array]) -> int | None:
    contracted = _CONTRACTED.search(line)
    if contracted is None:
        return None
    lhs, size = operands[0][1], math.prod(results[0][1])
    places = [int(place) for place in re.findall(r"\d+", contracted[1])]
    if any(place >= len(lhs) for place in places):
        return None
    beta = _BETA.search(line)
    added = ("BIAS" in line) + (beta is not None and float(beta[1]) != 0)
    return 2 * size * math.prod(lhs[place] for place in places) + added * size


def _convolution(line: str, operands: list[_Array], results: list[_Array]) -> int | None:
    labels = _KERNEL_LABELS.search(line)
    if labels is None:
        return None
    (_, first), (_, second), (_, result) = operands[0], operands[1], results[0]
    kernel, output = second, result
    if "BackwardInput" in line:
        output = first
    elif "BackwardFilter" in line:
        kernel, output = result, second
    if len(kernel) != len(labels[1]):
        return None
    return 2 * math.prod(output) * math.prod(kernel) // max(1, kernel[labels[1].index("o")])


def _arrays(shape: str) -> list[_Array]:
    """Format and extents of each array of a shape, or of a tuple of them."""
    return [(fmt, tuple(int(n) for n in sizes.split(",") if n)) for fmt, sizes in _SHAPE.findall(shape)]


def _bytes(array: _Array) -> int:
    """Bytes of an array: pred takes one; f8e4m3fn, s4 and the like carry their bits in their names."""
    fmt, sizes = array
    bits = re.search(r"\d+", fmt)
    return math.ceil(math.prod(sizes) * (int(bits[0]) if bits else 8) / 8)
