"""What is done with the logits of a chunk of tokens: computed, turned into the loss's gradient, multiplied twice.

>>> x, weight, target = torch.zeros(2, 8), torch.zeros(40, 8), torch.tensor([1, 39])
>>> z, losses, dx, dw = torch.empty(2, 40), torch.empty(2), torch.empty(2, 8), torch.empty(40, 8)
>>> Chunk(z, x, weight, dx, dw, -100)(losses, x, target, dx, add=False)
>>> losses.exp(), z[0, :2]
(tensor([40., 40.]), tensor([ 0.0250, -0.9750]))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..launching import repeated
from ..products.tiles import BESIDE, INTERPRETED, count_tiles, launch_options, tilings
from ..products.torch_operands import Described, described, processors
from ..products.torch_products import prepare
from ..tuning import choose
from .chunks import softmax_blocks
from .triton_linear_cross_entropy import logits_kernel, softmax_gradient_kernel

__all__ = ["Chunk"]


class Chunk:
    """The work on chunks of so many tokens, one after another: all that they have in common is prepared once.

    Args:
        z: [T, V], room for logits, its rows at multiples of 16 bytes.
        x: [T, d], of the first chunk, in z's format.
        weight: [V, d], the same.
        dx: [T, d], in fp32, of the first chunk; empty if it is not wanted.
        dw: [V, d], in fp32; the same.
        ignore_index: the target of tokens that do not count.
    """

    def __init__(
        self, z: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, dx: torch.Tensor, dw: torch.Tensor,
        ignore_index: int,
    ) -> None:  # fmt: skip
        self._z, self._dw = z, dw
        self._logits, self._statistics = _logits(z, x, weight)
        self._softmax = _softmax(z, self._statistics, ignore_index, gradient=bool(dx.numel() or dw.numel()))
        splits = _splits(len(z), x.shape[1], z.shape[1], z.device)
        together = dx.numel() and dw.numel() and z.itemsize == 2 and z.is_cuda and processors(z.device)[1]
        tiling = BESIDE if together else None
        self._streams = (torch.cuda.current_stream(z.device), _stream(z.device)) if together else None
        self._weight, self._g = weight, z.t()
        self._for_dx = prepare(dx, z, weight, splits=splits, tiling=tiling) if dx.numel() else None
        ways = (False, True) if dw.numel() else ()
        self._for_dw = {add: prepare(dw, self._g, x, add=add, tiling=tiling) for add in ways}

    def __call__(
        self, losses: torch.Tensor, x: torch.Tensor, target: torch.Tensor, dx: torch.Tensor, *, add: bool
    ) -> None:
        """Compute the losses of a chunk, dx = g W, and dW = g^T x, or with `add` dW += g^T x; g is left in z.

        On GPUs with a copy engine for tiles both run at a time, one program of each on a multiprocessor: dW waits for
        memory, into which it is added, and dx for the matrix units.

        Args:
            losses: [T], in fp32.
            x: [T, d].
            target: [T], in int64, contiguous.
            dx: [T, d], in fp32, or empty.
            add: to what is in dW.
        """
        self._logits(x)
        self._softmax(losses, target)
        if self._streams is None:
            self._multiply_dx(dx)
            self._multiply_dw(x, add)
            return
        here, beside = self._streams
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            self._multiply_dx(dx)
        self._multiply_dw(x, add)
        here.wait_stream(beside)

    def _multiply_dx(self, dx: torch.Tensor) -> None:
        if self._for_dx is not None:
            self._for_dx(dx, self._z, self._weight)

    def _multiply_dw(self, x: torch.Tensor, add: bool) -> None:
        if self._for_dw:
            self._for_dw[add](self._dw, self._g, x)


def _logits(
    z: torch.Tensor, x: torch.Tensor, weight: torch.Tensor
) -> tuple[Callable[[torch.Tensor], None], tuple[torch.Tensor, torch.Tensor]]:
    """What writes z = x W^T, and where it leaves maxima and sums of exponentials of rows, [T, tiles], to base 2."""
    (tokens, words), d = z.shape, x.shape[1]
    many, engine = processors(z.device)

    def prepared(choice: Mapping[str, Any]) -> tuple[Callable[[torch.Tensor], None], tuple[torch.Tensor, torch.Tensor]]:
        tiling = dict(choice)
        shape = (tokens, -(-words // tiling["TILE_N"]))
        largest, sums = (torch.empty(shape, dtype=torch.float32, device=z.device) for _ in range(2))
        to = described(z, (tiling["TILE_M"], tiling["TILE_N"] // tiling["PARTS"]))
        of_x = Described(x, (tiling["TILE_M"], tiling["TILE_K"]))
        of_w = Described(weight, (tiling["TILE_N"], tiling["TILE_K"]))
        launch = repeated(
            logits_kernel, (min(count_tiles(tokens, words, tiling), many * tiling["PER_SM"]),),
            X_TRANSPOSED=of_x.transposed, W_TRANSPOSED=of_w.transposed, PRECISION="ieee",
            PAIRS=z.is_cuda and torch.version.hip is None, **launch_options(tiling),
        )  # fmt: skip

        def run(x: torch.Tensor) -> None:
            launch(to, of_x(x), of_w(weight), largest, sums, tokens, words, d)

        return run, (largest, sums)

    if z.device.type == "cpu":
        return prepared(INTERPRETED)
    bits = z.itemsize * 8
    candidates = tilings(tokens, words, f"{bits}" if engine else f"{bits} plain", many)
    tried = lambda choice: prepared(choice)[0](x)  # noqa: E731
    return prepared(choose(f"logits_{bits}", (tokens, words, d), candidates, tried, z.device))


def _softmax(
    z: torch.Tensor, statistics: tuple[torch.Tensor, torch.Tensor], ignore_index: int, *, gradient: bool
) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """What computes losses, and replaces logits by the gradient of the losses' sum."""
    (tokens, words), tiles = z.shape, statistics[0].shape[1]
    block, warps = softmax_blocks(words) if z.is_cuda else (64, 1)
    launch = repeated(
        softmax_gradient_kernel, (tokens, -(-words // block) if gradient else 1),
        BLOCK=block, TILES=1 << (tiles - 1).bit_length(), GRADIENT=gradient, num_warps=warps,
    )  # fmt: skip

    def run(losses: torch.Tensor, target: torch.Tensor) -> None:
        launch(losses, z, target, *statistics, words, z.stride(0), tiles, ignore_index)

    return run


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _splits(tokens: int, d: int, words: int, device: torch.device) -> int:
    """Into how many ranges the words are cut for dx, whose few tiles would leave most multiprocessors idle."""
    if device.type == "cpu":
        return 2 if words > 64 else 1
    tiles = -(-tokens // 128) * -(-d // 256)
    return max(1, min(processors(device)[0] // tiles, words // 1024, 8))
