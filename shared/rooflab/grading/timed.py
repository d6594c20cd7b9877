"""What runs between the start and the stop of a clock that somebody else holds?

The one who holds the clock, the grader, trusts nothing that runs in the process of the student. So a timed call is made
such that whoever answers before the work is done, or does it before the clock starts, cannot give the right answer:

1. `go` brings a seed that nobody knew before. The inputs are drawn from it on the device, inside the timed part.
2. Data of several times the cache's size are read, so that the inputs come from memory, as those of the ceilings do. A
   hash of them, mixed with a key that came with the seed, is part of the answer: who leaves this out cannot give it.
   Meanwhile the host gets ahead of the device, so that it is the device that is timed.
3. The function is called, and the device has to end all its work. The answer to `go` holds a digest of all bytes of
   the results, mixed with the key. Lazy results, work in another stream or thread, and results kept from earlier
   calls all have the wrong digest.
4. Then the results are fetched, outside of the timed part. The grader draws the same inputs, checks the results, and
   computes the digest again from what it got.

Drawing, reading and digest take time of their own. A process that has run no code of the student's does the same
without the function between them; that time is subtracted.

>>> normal((2, 3), "fp32").elements
6
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .digest import folded, hashed, words_of

__all__ = [
    "Recipe",
    "Timed",
    "ballast",
    "integers",
    "normal",
    "plain",
    "probe_function",
    "recipes_of",
    "results_of",
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
_CACHES = 16  # sizes of the cache that are read before a call


@dataclass(frozen=True)
class Recipe:
    """How one input is drawn from a seed."""

    kind: str  # "normal", "uniform" or "integers"
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

        dtype = getattr(torch, _DTYPES[self.dtype])
        made = torch.empty(self.shape, dtype=dtype, device=device)
        if self.kind == "normal":
            return made.normal_(generator=generator)
        if self.kind == "uniform":
            return made.uniform_(self.low, self.high, generator=generator)
        return made.random_(int(self.low), int(self.high), generator=generator)


def normal(shape: tuple[int, ...], dtype: str = "fp32") -> Recipe:
    """Return a recipe for numbers of mean 0 and variance 1."""
    return Recipe("normal", tuple(shape), dtype)


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
        self.results: list[Any] = []

    def go(self, function: Callable[..., Any], seed: int, key: int) -> int:
        """Draw the inputs, call the function, and return the digest of its results; the clock runs meanwhile."""
        import torch

        self.generator.manual_seed(seed)
        inputs = [recipe.draw(self.generator, self.device) for recipe in self.recipes]
        read = hashed(0, self.ballast, key)
        if self.framework == "jax":
            import jax

            inputs = [jax.dlpack.from_dlpack(one) for one in inputs]
        returned = function(*inputs)
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        self.results = [torch.from_dlpack(one) for one in results] if self.framework == "jax" else results
        hashes = [read, *(hashed(number, one, key) for number, one in enumerate(self.results, 1))]
        if torch.device(self.device).type == "cuda":
            torch.cuda.synchronize()  # all streams of the device
        return folded(hashes, key)

    def fetch(self) -> list[np.ndarray[Any, Any]]:
        """Return the results of the last call, each as its bytes."""
        return [words_of(result).cpu().numpy() for result in self.results]


def ballast(device: str) -> Any:
    """Return words of 16 times a GPU's cache, the same in every process; none on a CPU, which is not timed.

    Twice the size would empty the cache. The rest is for the host's sake: while they are read, some hundreds of
    microseconds, it launches what follows, and its own pace, which varies far more than the device's, is not timed.
    """
    import torch

    words = 0
    if torch.device(device).type == "cuda":
        cache_bytes = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or 64 * 2**20
        words = _CACHES * int(cache_bytes) // 4
    generator = torch.Generator(device=device).manual_seed(0)
    made = torch.empty(words, dtype=torch.int32, device=device)
    return made.random_(0, 2**31 - 1, generator=generator)


def results_of(words: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return the tensor whose bytes `fetch` gave, or None where they are not those of this shape and format."""
    import torch

    kind = getattr(torch, _DTYPES[dtype])
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

    dtype = getattr(torch, _DTYPES[what["dtype"]])
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
