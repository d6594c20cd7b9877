"""What is drawn, expected and allowed in timed calls: the grader's side of :mod:`rooflab.grading.timed`.

>>> from rooflab.grading.timed import normal
>>> Trial(lambda x: 2 * x, [normal((4, 8))], "cpu", "fp32", 1).shapes
[(4, 8)]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rooflab.costs import Work
from rooflab.tolerances import tolerance

from .ballast import ballast, lead
from .digest import BLOCK, FEW, chained, hashed, joined, key_of, level_of, words_of
from .timed import Recipe, call_key, format_of, results_of

__all__ = ["Trial"]

_MOST_BYTES = 2**28  # of the results of one call: what a student's process may send at a time
_SHARE = 8  # of the device's memory, one part of which the results of several calls may take
_CHANGED = "the results are not those that were there when the clock stopped"


class Trial:
    """The inputs and the right results of timed calls.

    Args:
        reference: of torch's tensors, what is right.
        inputs: how each is drawn.
        device: torch's name of it.
        dtype: the format of the results.
        length: of the reductions, for the tolerance.

    Raises:
        ValueError: the results are too large to be compared.
    """

    def __init__(
        self, reference: Callable[..., Any], inputs: list[Recipe], device: str, dtype: str, length: int
    ) -> None:
        import torch

        self.reference, self.inputs, self.device, self.dtype, self.length = reference, inputs, device, dtype, length
        self.generator, self.ballast = torch.Generator(device=device), ballast(device)
        self.shapes = [tuple(one.shape) for one in self.expected(0)]
        self.lot = random.SystemRandom()
        size = 4 * sum(map(self._words, range(len(self.shapes))))
        if size > _MOST_BYTES:
            raise ValueError(
                f"The results of one call are {size / 2**20:,.0f} MiB; at most {_MOST_BYTES // 2**20} MiB can be "
                "compared. Time the function on smaller inputs."
            )

    def expected(self, seed: int) -> list[Any]:
        """Return what is right for the inputs of a seed."""
        self.generator.manual_seed(seed)
        results = self.reference(*[recipe.draw(self.generator, self.device) for recipe in self.inputs])
        return list(results) if isinstance(results, tuple | list) else [results]

    def probes(self, work: Work, intense: float) -> dict[str, dict[str, Any]]:
        """Return the same calls with nothing, with a copy, and with a product where arithmetic may bind, in the middle.

        Args:
            work: what the function has to do.
            intense: FLOP per byte from which on arithmetic may bind.
        """
        common: dict[str, Any] = {"shapes": [list(shape) for shape in self.shapes], "dtype": self.dtype}
        probes = {"null": {**common, "kind": "null"}, "copy": {**common, "kind": "copy", "bytes": int(work.bytes)}}
        if work.intensity > intense:
            probes["product"] = {**common, "kind": "product", "flops": work.flops}
        return probes

    def most_together(self) -> int:
        """Return of how many calls the results can be kept side by side."""
        import torch

        if torch.device(self.device).type != "cuda":
            return 2
        total = torch.cuda.get_device_properties(self.device).total_memory
        return max(1, total // (_SHARE * 4 * max(1, sum(map(self._words, range(len(self.shapes)))))))

    def verify(self, raw: Sequence[Any], seed: int, key: int, digest: int) -> None:
        """Compare all results of one call, and their digest, with what its seed gives.

        Raises:
            AssertionError: they are not right, or not those of the digest.
        """
        given = [results_of(words, shape, self.dtype) for words, shape in zip(raw, self.shapes, strict=False)]
        if len(raw) != len(self.shapes) or any(one is None for one in given):
            raise AssertionError(f"expected results of the shapes {self.shapes} in {self.dtype}")
        found = [one.to(self.device) for one in given]
        own_key = call_key(key, 0)
        levels = [lead(self.ballast, key, 1), *self._before(own_key)]
        levels += [level_of(words_of(one), key_of(own_key, number)) for number, one in enumerate(found, 2)]
        if hashed(joined(levels, key), levels, key) != digest:
            raise AssertionError(_CHANGED)
        for one, right in zip(found, self.expected(seed), strict=True):
            self._compare(one.reshape(-1), right.reshape(-1), right)

    def verify_blocks(
        self, ask: Callable[[list[list[int]]], Sequence[Any]], seed: int, key: int, digest: int, calls: int
    ) -> None:
        """Compare blocks of the results of several calls, drawn by lot, with their digest and with what is right.

        Args:
            ask: called with the numbers of blocks, for each call and result; see `Timed.blocks`.
            seed: of the first call.
            key: of the first call.
            digest: that was told when the clock stopped.
            calls: how many there were.

        Raises:
            AssertionError: they are not right, or not those of the digest.
        """
        sizes = [self._words(number) for number in range(len(self.shapes))]
        which = [[self.lot.randrange(-(-size // BLOCK) or 1) for size in sizes] for _ in range(calls)]
        levels = [lead(self.ballast, key, calls)]
        opened: list[list[Any]] = []
        for call, (told, blocks) in enumerate(zip(ask(which), which, strict=True)):
            own_key = call_key(key, call)
            levels += self._before(own_key)
            opened.append([])
            for number, (size, block) in enumerate(zip(sizes, blocks, strict=True)):
                pair = told[2 * number : 2 * number + 2] if len(told) == 2 * len(sizes) else []
                words, every = self._opened(pair, size, block, key_of(own_key, number + 2))
                levels.append(every)
                opened[-1].append(words)
        if hashed(joined(levels, key), levels, key) != digest:
            raise AssertionError(_CHANGED)
        kind = format_of(self.dtype)
        for call, (found, blocks) in enumerate(zip(opened, which, strict=True)):
            for words, block, right in zip(found, blocks, self.expected(seed + call), strict=True):
                first = block * BLOCK * 4 // kind.itemsize
                want = right.reshape(-1)[first : first + BLOCK * 4 // kind.itemsize]
                mine = words.view(dtype=kind)[: want.numel()] if words.numel() else words.to(kind)
                self._compare(mine, want, right)

    def _before(self, own_key: int) -> list[Any]:
        """What comes of what is read before a call and after it."""
        return [level_of(self.ballast, key_of(own_key, number)) for number in range(2)]

    def _words(self, number: int) -> int:
        """The size of a result, in words of 32 bits."""
        return -(-int(np.prod(self.shapes[number])) * format_of(self.dtype).itemsize // 4)

    def _opened(self, pair: Sequence[Any], size: int, block: int, key: int) -> tuple[Any, Any]:
        """A block, and what has come of all of them, if the one belongs to the other."""
        import torch

        chains = -(-size // BLOCK) * 2 * BLOCK // 256 if size > FEW else size
        wanted = [chains, min(BLOCK, size - block * BLOCK)]
        sizes = [one.size for one in pair if isinstance(one, np.ndarray) and one.dtype == np.int32 and one.ndim == 1]
        if sizes != wanted:
            raise AssertionError(f"expected results of the shapes {self.shapes} in {self.dtype}")
        every, words = (torch.from_numpy(one).to(self.device) for one in pair)
        mine = chained(words, key, block) if size > FEW else words
        if not torch.equal(every[block * mine.numel() : (block + 1) * mine.numel()], mine):
            raise AssertionError(_CHANGED)
        return words, every

    def _compare(self, found: Any, want: Any, right: Any) -> None:
        """Compare numbers with what is right, a part of `right`."""
        import torch

        finite = right[right.isfinite()]
        size = float(finite.abs().max()) if finite.numel() else 0.0
        allowed = tolerance(self.dtype, self.length, scale=size if self.length > 1 else 0.0)
        mine, want = found.to(want.device).to(torch.float64), want.to(torch.float64)
        near = (mine - want).abs() - allowed.atol - allowed.rtol * want.abs() <= 0
        near |= (mine == want) | (mine.isnan() & want.isnan())  # infinities, as of masks, have no distance
        if wrong := int((~near).sum()):
            raise AssertionError(f"{wrong:,} of {want.numel():,} results of a timed call are wrong")
