"""What runs between the start and the stop of a clock that somebody else holds?

The one who holds the clock, the grader, trusts nothing that runs in the process of the student. So a timed call is made
such that whoever answers before the work is done, or does it before the clock starts, cannot give the right answer:

1. `go` brings a seed that nobody knew before. The inputs are drawn from it on the device, inside the timed part.
2. Data of twice the cache's size are read before the function is called and after it, so that the inputs and the
   results come from memory, as those of the ceilings do. What was read is part of the answer, mixed with a key that
   came with the seed: who leaves this out cannot give it.
3. The device has to end all its work. The answer to `go` is a digest of all bytes of the results, mixed with the
   key. Lazy results, and results kept from earlier calls, have the wrong digest.
4. Then the grader asks for some blocks of the results, drawn by lot, which it compares with the digest and with what
   is right for the seed. What another stream or thread would have written later is not there.

One `go` makes several such calls, each with inputs of its own. The same data are read many times before the first: so
the host gets ahead of the device, and it is the device that is timed. What the calls take beside the function is known
from a process that has run no code of the student's and does the same without a function; it is subtracted.

>>> normal((2, 3), "fp32").elements
6
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .ballast import ballast, lead
from .digest import BLOCK, hashed, joined, key_of, level_of, words_of

__all__ = [
    "Recipe",
    "Timed",
    "call_key",
    "format_of",
    "integers",
    "normal",
    "plain",
    "probe_function",
    "recipes_of",
    "results_of",
    "rows",
    "uniform",
]

_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "int32": "int32",
    "int64": "int64",
}


_SPREAD = 2.0  # of the means of rows


@dataclass(frozen=True)
class Recipe:
    """How one input is drawn from a seed."""

    kind: str  # "normal", "rows", "uniform" or "integers"
    shape: tuple[int, ...]
    dtype: str
    low: float = 0.0
    high: float = 1.0

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def draw(self, generator: Any, device: str) -> Any:
        """Return the tensor that a torch generator of the device gives."""
        import torch

        dtype = format_of(self.dtype)
        made = torch.empty(self.shape, dtype=dtype, device=device)
        if self.kind == "normal":
            return made.normal_(generator=generator)
        if self.kind == "rows":
            means = torch.empty((*self.shape[:-1], 1), dtype=dtype, device=device)
            return made.normal_(generator=generator).add_(means.normal_(std=_SPREAD, generator=generator))
        if self.kind == "uniform":
            return made.uniform_(self.low, self.high, generator=generator)
        return made.random_(int(self.low), int(self.high), generator=generator)


def normal(shape: tuple[int, ...], dtype: str = "fp32") -> Recipe:
    """Return a recipe for numbers of mean 0 and variance 1."""
    return Recipe("normal", tuple(shape), dtype)


def rows(shape: tuple[int, ...], dtype: str = "fp32") -> Recipe:
    """Return a recipe for numbers of variance 1 around a mean that each row (the last axis) has for itself.

    Rows of `normal` numbers are so much alike that a function which never reduces them may pass.
    """
    return Recipe("rows", tuple(shape), dtype)


def uniform(shape: tuple[int, ...], dtype: str = "fp32", low: float = 0.0, high: float = 1.0) -> Recipe:
    """Return a recipe for numbers between two bounds."""
    return Recipe("uniform", tuple(shape), dtype, low, high)


def integers(shape: tuple[int, ...], low: int, high: int, dtype: str = "int64") -> Recipe:
    """Return a recipe for whole numbers of `low` or more, below `high`."""
    return Recipe("integers", tuple(shape), dtype, low, high)


def recipes_of(told: Sequence[dict[str, Any]]) -> list[Recipe]:
    """Return the recipes that plain data describe, as `asdict` makes them."""
    return [Recipe(**{**one, "shape": tuple(one["shape"])}) for one in told]


class Timed:
    """The part of a timed call that is the student's process's; one for each function.

    Args:
        recipes: of the inputs.
        device: torch's name of it.
        framework: whose arrays the function takes and returns, "torch" or "jax".
    """

    def __init__(self, recipes: Sequence[Recipe], device: str, framework: str = "torch") -> None:
        import torch

        self.recipes, self.device, self.framework = list(recipes), device, framework
        self.generator = torch.Generator(device=device)
        self.ballast = ballast(device)
        self.calls: list[list[tuple[Any, Any]]] = []  # of each call and result: its words, what came of each block

    def go(self, function: Callable[..., Any], seed: int, key: int, calls: int = 1) -> int:
        """Call the function on inputs drawn from a seed, several times; the clock runs meanwhile.

        Args:
            function: of arrays.
            seed: of the first call's inputs; the next has the next.
            key: of the first call's digest, below 2^31; see :func:`call_key`.
            calls: how many.

        Returns:
            the digest of all calls, of 64 bits.
        """
        import torch

        self.calls, levels = [], [lead(self.ballast, key, calls)]
        for call in range(calls):
            levels += self._call(function, seed + call, call_key(key, call))
        left = joined(levels, key)
        if torch.device(self.device).type == "cuda":
            torch.cuda.synchronize()  # all streams of the device
        return hashed(left, levels, key)

    def _call(self, function: Callable[..., Any], seed: int, key: int) -> list[Any]:
        """Launch one call and what comes before and after it; returns what has come of all blocks of all of it.

        The fewer launches the better: a host that does not get ahead of the device is timed instead of it.
        """
        import torch

        self.generator.manual_seed(seed)
        inputs = [recipe.draw(self.generator, self.device) for recipe in self.recipes]
        levels = [level_of(self.ballast, key_of(key, 0))]
        if self.framework == "jax":
            import jax

            inputs = [jax.dlpack.from_dlpack(one) for one in inputs]
        returned = function(*inputs)
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        if self.framework == "jax":
            results = [torch.from_dlpack(one) for one in results]
        levels.append(level_of(self.ballast, key_of(key, 1)))
        kept = []
        for number, result in enumerate(results, 2):
            words = words_of(result)
            copy = torch.empty_like(words)  # the next call may write to the same memory
            levels.append(level_of(words, key_of(key, number), keep=copy))
            kept.append((copy, levels[-1]))
        self.calls.append(kept)
        return levels

    def fetch(self) -> list[np.ndarray[Any, Any]]:
        """Return the results of the last call, each as its bytes in words of 32 bits."""
        return [words.cpu().numpy() for words, _ in self.calls[-1]]

    def blocks(self, call: int, which: Sequence[int]) -> list[np.ndarray[Any, Any]]:
        """Return of each result of a call what has come of all its blocks, and one of them.

        Args:
            call: its number in the last `go`.
            which: the number of the block, for each result.
        """
        told = []
        for (words, chains), block in zip(self.calls[call], which, strict=False):
            told += [chains.cpu().numpy(), words[block * BLOCK : (block + 1) * BLOCK].cpu().numpy()]
        return told


def call_key(key: int, call: int) -> int:
    """Return the key of one of the calls of a `go`: what is read with it has a key that no other reading has."""
    return (key + 0x632BE5AB * call) & 0x7FFFFFFF


def format_of(dtype: str) -> Any:
    """Return torch's format of a name such as "bf16"."""
    import torch

    return getattr(torch, _DTYPES[dtype])


def results_of(words: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return the tensor whose bytes `fetch` gave, or None where they are not those of this shape and format."""
    import torch

    kind = format_of(dtype)
    size = math.prod(shape) * kind.itemsize
    if not isinstance(words, np.ndarray) or words.dtype != np.int32 or words.nbytes != -(-size // 4) * 4:
        return None
    raw = torch.from_numpy(words.reshape(-1).copy()).view(torch.uint8)[:size]
    return raw.view(kind).reshape(shape)


def probe_function(what: dict[str, Any], device: str) -> Callable[..., Any]:
    """Return a function that takes any inputs and does nothing, a copy, or a product, of a size.

    It returns results of the shapes that are asked for, which were there before, so that everything around it takes the
    same time as around a student's function.
    """
    import torch

    dtype = format_of(what["dtype"])
    results = [torch.zeros(tuple(shape), dtype=dtype, device=device) for shape in what["shapes"]]
    if what["kind"] == "copy":
        source = torch.zeros(max(1, int(what["bytes"]) // 8), dtype=torch.float32, device=device)
        target = torch.empty_like(source)
        return lambda *inputs: (target.copy_(source), results)[1]
    if what["kind"] == "product":
        side = max(64, 64 * round((what["flops"] / 2) ** (1 / 3) / 64))
        one = torch.randn(side, side, device=device).to(dtype)
        rest = max(64, 64 * round(what["flops"] / (2 * side * side) / 64))
        other = torch.randn(side, rest, device=device).to(dtype)
        return lambda *inputs: (one @ other, results)[1]
    return lambda *inputs: results


def plain(recipes: Sequence[Recipe]) -> list[dict[str, Any]]:
    """Return recipes as plain data."""
    return [asdict(recipe) for recipe in recipes]
