"""How has a matrix to lie in memory for the copy engine, and what is it told about it?

The engine takes addresses and row steps that are multiples of 16 bytes, and elements of a row side by side. A matrix
that is stored transposed is as good; any other is copied into padded rows, which costs reading and writing it once.

>>> padded_empty(3, 5, torch.bfloat16, torch.device("cpu")).stride()
(8, 1)
>>> stored, transposed = as_stored(torch.zeros(16, 8).t())
>>> stored.shape, transposed
(torch.Size([16, 8]), True)
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Described", "as_stored", "autocast", "described", "give_scratch", "padded_empty", "processors"]

_BYTES = 16
_CAST = (torch.float32, torch.bfloat16, torch.float16)
_INTERPRETED_PROCESSORS = 4  # so that programs have several tiles each


def processors(device: torch.device) -> tuple[int, bool]:
    """Return how many multiprocessors a device has, and whether these have a copy engine for tiles."""
    if device.type == "cpu":
        return _INTERPRETED_PROCESSORS, True
    chip = torch.cuda.get_device_properties(device)
    return chip.multi_processor_count, torch.version.hip is None and chip.major >= 9


def padded_empty(rows: int, cols: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return an empty matrix [rows, cols] whose rows begin at multiples of 16 bytes."""
    unit = _BYTES // dtype.itemsize
    return torch.empty(rows, -(-cols // unit) * unit, dtype=dtype, device=device)[:, :cols]


def autocast(*operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return operands of a product in the format of an autocast around it; as they are where there is none.

    torch asks for a device that computes: what is on "meta" has none. What is refused without an autocast stays as it
    is, to be refused: integers, fp64, fp8.
    """
    device = operands[0].device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return operands
    dtype = torch.get_autocast_dtype(device)
    return tuple(x.to(dtype) if x.dtype in _CAST else x for x in operands)


def as_stored(x: torch.Tensor, *, only: bool | None = None) -> tuple[torch.Tensor, bool]:
    """Return a matrix as it lies in memory, elements of a row side by side, and whether that is its transpose.

    Args:
        x: of two dimensions.
        only: the one answer that will do, if so: products of fp8 read both operands along K.
    """
    if not only and _fits(x):
        return x, False
    if only is not False and _fits(turned := x.t()):
        return turned, True
    stored, transposed = (x.t(), True) if only else (x, False)
    copied = padded_empty(stored.shape[0], stored.shape[1], x.dtype, x.device)
    copied.copy_(stored)
    return copied, transposed


def _fits(x: torch.Tensor) -> bool:
    step, beside = x.stride()
    return beside == 1 and step >= x.shape[1] and step * x.itemsize % _BYTES == 0 and x.data_ptr() % _BYTES == 0


def described(x: torch.Tensor, block: tuple[int, int], transposed: bool = False) -> Any:
    """Return the descriptor of a matrix as it is stored, for blocks of it (given as if it were not transposed)."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(x, list(x.shape), list(x.stride()), list(block[::-1] if transposed else block))


class Described:
    """Descriptors of matrices that are like a first one; of the same matrix it is made only once.

    Args:
        x: the first one, of any strides.
        block: see :func:`described`.

    Attributes:
        transposed: whether they are stored transposed.
    """

    def __init__(self, x: torch.Tensor, block: tuple[int, int]) -> None:
        stored, self.transposed = as_stored(x)
        self._block, self._last, self._made = block, x, described(stored, block, self.transposed)

    def __call__(self, x: torch.Tensor) -> Any:
        """Return the descriptor of a matrix."""
        if x is not self._last:
            stored, _ = as_stored(x, only=self.transposed)
            self._last, self._made = x, described(stored, self._block, self.transposed)
        return self._made


def give_scratch() -> None:
    """Give Triton memory for descriptors that kernels make themselves: 128 bytes each, for each program."""
    import triton

    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))
