"""What is done with the logits of a chunk of tokens: computed, turned into the loss's gradient, multiplied twice.

>>> x, weight, target = torch.zeros(2, 8), torch.zeros(40, 8), torch.tensor([1, 39])
>>> z, losses = torch.empty(2, 40), torch.empty(2)
>>> turn_into_gradient(losses, z, target, compute_logits(z, x, weight), -100)
>>> losses.exp(), z[0, :2]
(tensor([40., 40.]), tensor([ 0.0250, -0.9750]))
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from ..launching import launch
from ..products.tiles import BESIDE, INTERPRETED, count_tiles, launch_options, tilings
from ..products.torch_operands import as_stored, described, processors
from ..products.torch_products import multiply
from ..tuning import choose
from .chunks import softmax_blocks
from .triton_linear_cross_entropy import logits_kernel, softmax_gradient_kernel

__all__ = ["Statistics", "compute_logits", "multiply_both", "turn_into_gradient"]

Statistics = tuple[torch.Tensor, torch.Tensor]


def compute_logits(z: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Statistics:
    """Write z = x W^T; returns the maxima and the sums of exponentials of its rows, both [T, tiles], to base 2.

    Args:
        z: [T, V], its rows at multiples of 16 bytes.
        x: [T, d], in z's format.
        weight: [V, d], the same.
    """
    (tokens, words), d = z.shape, x.shape[1]
    (x, x_transposed), (weight, w_transposed) = as_stored(x), as_stored(weight)
    many, engine = processors(z.device)
    flags = {"X_TRANSPOSED": x_transposed, "W_TRANSPOSED": w_transposed, "PRECISION": "ieee"}

    def run(choice: Mapping[str, Any]) -> Statistics:
        tiling = dict(choice)
        shape = (tokens, -(-words // tiling["TILE_N"]))
        largest, sums = (torch.empty(shape, dtype=torch.float32, device=z.device) for _ in range(2))
        launch(
            logits_kernel, (min(count_tiles(tokens, words, tiling), many * tiling["PER_SM"]),),
            described(z, (tiling["TILE_M"], tiling["TILE_N"] // tiling["PARTS"])),
            described(x, (tiling["TILE_M"], tiling["TILE_K"]), x_transposed),
            described(weight, (tiling["TILE_N"], tiling["TILE_K"]), w_transposed),
            largest, sums, tokens, words, d, **flags, **launch_options(tiling),
        )  # fmt: skip
        return largest, sums

    def tried(choice: Mapping[str, Any]) -> None:
        run(choice)

    if z.device.type == "cpu":
        return run(INTERPRETED)
    bits = z.itemsize * 8
    candidates = tilings(tokens, words, f"{bits}" if engine else f"{bits} plain", many)
    return run(choose(f"logits_{bits}", (tokens, words, d), candidates, tried, z.device))


def turn_into_gradient(
    losses: torch.Tensor, z: torch.Tensor, target: torch.Tensor, statistics: Statistics, ignore_index: int, *,
    gradient: bool = True,
) -> None:  # fmt: skip
    """Compute the losses of tokens, and replace their logits by the gradient of the losses' sum.

    Args:
        losses: [T], in fp32, to be filled.
        z: [T, V], the logits.
        target: [T], in int64, contiguous.
        statistics: what :func:`compute_logits` has returned.
        ignore_index: the target of tokens that do not count.
        gradient: whether logits are replaced.
    """
    (tokens, words), tiles = z.shape, statistics[0].shape[1]
    block, warps = softmax_blocks(words) if z.is_cuda else (64, 1)
    launch(
        softmax_gradient_kernel, (tokens, -(-words // block) if gradient else 1), losses, z, target, *statistics,
        words, z.stride(0), tiles, ignore_index, BLOCK=block, TILES=1 << (tiles - 1).bit_length(), GRADIENT=gradient,
        num_warps=warps,
    )  # fmt: skip


def multiply_both(
    dx: torch.Tensor, dw: torch.Tensor, g: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *, add: bool
) -> None:
    """Write dx = g W, and dW = g^T x or with `add` dW += g^T x; either may be empty: it is not wanted.

    On GPUs with a copy engine for tiles both run at a time, one program of each on a multiprocessor: dW waits for
    memory, into which it is added, and dx for the matrix units.

    Args:
        dx: [T, d], in fp32.
        dw: [V, d], in fp32.
        g: [T, V].
        x: [T, d], in g's format.
        weight: [V, d], the same.
        add: to what is in dW.
    """
    splits = _splits(len(g), x.shape[1], g.shape[1], g.device)
    together = dx.numel() and dw.numel() and g.itemsize == 2 and g.is_cuda and processors(g.device)[1]
    if not together:
        if dx.numel():
            multiply(dx, g, weight, splits=splits)
        if dw.numel():
            multiply(dw, g.t(), x, add=add)
        return
    here, beside = torch.cuda.current_stream(g.device), _stream(g.device)
    beside.wait_stream(here)
    with torch.cuda.stream(beside):
        multiply(dx, g, weight, splits=splits, tiling=BESIDE)
    multiply(dw, g.t(), x, add=add, tiling=BESIDE)
    here.wait_stream(beside)


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _splits(tokens: int, d: int, words: int, device: torch.device) -> int:
    """Into how many ranges the words are cut for dx, whose few tiles would leave most multiprocessors idle."""
    if device.type == "cpu":
        return 2 if words > 64 else 1
    tiles = -(-tokens // 128) * -(-d // 256)
    return max(1, min(processors(device)[0] // tiles, words // 1024, 8))
