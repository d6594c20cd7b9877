"""How long should a step take, how much memory, and how well is a device used? Derived from costs and ceilings.

>>> from rooflab.speedrun.config import preset
>>> ceilings = Ceilings(bytes_per_s=1e12, flops_per_s={"fp32": 1e13, "bf16": 1e14}, launch_s=1e-5)
>>> plain = preset("gpt2-small")
>>> forecast(plain, ceilings).step_s > 3 * forecast(plain.change(precision="bf16"), ceilings).step_s
True
>>> round(flops_per_token(plain) / 1e6, 1)
854.4
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from ..costs import Transformer, Work, elementwise, optimizer_step, state_bytes, transformer_parts
from ..costs import flops_per_token as _flops_per_token
from ..roofline import Ceilings, sequence_regime, sequence_time_s
from ..units import bytes_of, format_si
from .config import LOSS_CHUNK, Config

__all__ = ["Forecast", "advice", "flops_per_token", "forecast", "hardware_flops_per_token", "kept_bytes",
           "memory_bytes", "shape_of", "state_and_gradient_bytes", "step_parts", "utilization"]  # fmt: skip

_PRODUCTS = ("qkv", "projection", "mlp up", "mlp down", "head")


@dataclass(frozen=True)
class Forecast:
    """What a step of one rank should take.

    Attributes:
        step_s: seconds.
        memory_bytes: parameters, gradients, states and what the backward pass needs.
        flops, bytes, launches: of a step.
        regime: "compute", "bandwidth" or "overhead", where most of the time goes.
        parts: the work by kind.
    """

    step_s: float
    memory_bytes: float
    flops: float
    bytes: float
    launches: int
    regime: str
    parts: Mapping[str, Work]


def shape_of(config: Config, *, padded: bool = True) -> Transformer:
    """The transformer whose costs a run has; with `padded` the rows of padding are words."""
    return Transformer(
        config.layers, config.width, config.head_count, config.rows if padded else config.vocabulary, config.length,
        biases=False, norm=config.norm, positions=config.position, tied=config.tied,
    )  # fmt: skip


def flops_per_token(config: Config) -> float:
    """FLOPs of a token that count for MFU: 6 N + 12 L T d, attention without the discount for its mask, no padding.

    Source: Chowdhery et al. 2022 (PaLM), appendix B.
    """
    return _flops_per_token(shape_of(config, padded=False), config.length, causal=False)


def hardware_flops_per_token(config: Config) -> float:
    """FLOPs of the products that the device computes for a token, for HFU: with padding, without skipped blocks."""
    products = [work.flops for name, work in step_parts(config).items() if name.split(" backward")[0]
                in (*_PRODUCTS, "attention", "newton-schulz")]  # fmt: skip
    return sum(products) / (config.sequences * config.accumulation * config.length)


def utilization(config: Config, tokens_per_s: float, flops_per_s: float, *, world: int = 1) -> tuple[float, float]:
    """MFU and HFU: FLOPs of the model, and of the hardware, as a share of a rate of one device."""
    rate = flops_per_s * world
    return tokens_per_s * flops_per_token(config) / rate, tokens_per_s * hardware_flops_per_token(config) / rate


def forecast(config: Config, ceilings: Ceilings, *, world: int = 1) -> Forecast:
    """Time and memory of a step under ceilings, the sum of its kernels; communication between ranks is not in it.

    Raises:
        MissingFormat: the ceilings lack the rate of the config's format.
    """
    parts = step_parts(config, world)
    if "bf16" not in ceilings.flops_per_s:  # where Muon iterates in fp32
        parts = {name: replace(work, dtype="fp32") if work.dtype == "bf16" and config.precision == "fp32" else work
                 for name, work in parts.items()}  # fmt: skip
    works = list(parts.values())
    if config.graph:
        works = [replace(work, launches=0) for work in works[:-1]] + [replace(works[-1], launches=1)]
    return Forecast(
        sequence_time_s(works, ceilings), memory_bytes(config), sum(work.flops for work in works),
        sum(work.bytes for work in works), sum(work.launches for work in works), sequence_regime(works, ceilings),
        parts,
    )  # fmt: skip


def step_parts(config: Config, world: int = 1) -> dict[str, Work]:
    """The work of a step by kind of kernel: `costs.transformer_parts`, and what the switches make of it."""
    shape, n = shape_of(config), config.sequences * config.length
    fmt = {"fp8": "bf16"}.get(config.precision, config.precision)
    s = bytes_of(fmt)
    parts = transformer_parts(shape, config.sequences, config.length, fmt, training=True,
                              fused_attention=config.attention != "plain")  # fmt: skip
    parts = {name: work for name, work in parts.items() if name != "update"}
    if config.attention == "window":
        share = fmean(_pairs(config.length, window) / _pairs(config.length, config.length)
                      for window in (config.window_at(i / 4) for i in range(4)))  # fmt: skip
        for name in ("attention", "attention backward"):
            parts[name] = replace(parts[name], flops=parts[name].flops * share)
    if config.compile != "no":  # a sum is part of the norm that follows it: its result is not read again
        for name in ("residual", "residual backward"):
            parts[name] = replace(parts[name], bytes_read=s * n * config.width * 2 * config.layers, bytes_written=0,
                                  launches=0)  # fmt: skip
    if config.token_shift:  # the token before is at hand; backward, what was shifted is read for the sums of the shares
        kept = "fp32" if s == 4 else "bf16"
        moved = elementwise(n * config.width, dtype=kept, flops_per_element=3, arithmetic="fp32")
        back = elementwise(n * config.width, reads=2, dtype=kept, flops_per_element=5, arithmetic="fp32")
        parts |= {"shift": moved * config.layers, "shift backward": back * config.layers}
    if config.value_skip:  # own values and the first block's, mixed; backward both and the gradient of the mixture
        kept = "fp32" if s == 4 else "bf16"
        mixed = elementwise(n * config.width, reads=2, dtype=kept, flops_per_element=3, arithmetic="fp32")
        back = elementwise(n * config.width, reads=3, writes=2, dtype=kept, flops_per_element=6, arithmetic="fp32")
        parts |= {"skip": mixed * config.layers, "skip backward": back * config.layers}
    parts["loss"] = _loss(config, n * config.rows, s)
    if config.mlp == "kernel":
        parts |= _by_kernel(parts, n, config, s)
    if config.precision == "fp8":
        parts |= _in_fp8(parts, n, config)
    if fmt == "bf16":  # weights are rounded before their products, and gradients widened after them
        weights = shape.multiplied_weights
        parts["casts"] = Work(0, (4 + 2) * weights, (2 + 4) * weights, 2 * 4 * config.layers, fmt, "casts")
    parts = {name: work * config.accumulation for name, work in parts.items()}
    return parts | _update(config, shape, world)


def _pairs(length: int, window: int) -> int:
    return window * (window + 1) // 2 + (length - window) * window


def _loss(config: Config, logits: int, s: float) -> Work:
    """Cross-entropy of so many logits, with its gradient.

    One operation after the other: widen (bf16 only), log-softmax, the targets' gradient, the softmax's, narrow: 24
    bytes a logit in fp32, 36 in bf16. Compiled, in chunks or by a kernel: read for the sum, read for the gradient,
    which is written.
    """
    if config.loss == "plain" and config.compile == "no":
        moved = 24 if s == 4 else 36
        return Work(6 * logits, logits * moved / 2, logits * moved / 2, 5 if s == 4 else 7, "fp32", "loss")
    return Work(6 * logits, 2 * s * logits, s * logits, 3, "fp32", "loss")


def _in_fp8(parts: Mapping[str, Work], n: int, config: Config) -> dict[str, Work]:
    """Forward products at the rate of fp8, but for the projection of attention.

    The codes of their inputs are written beside these. Weights are read for the longest row, read again and written;
    inputs that no norm bounds are read once more.
    """
    found = {name: replace(parts[name], dtype="fp8") for name in ("qkv", "mlp up", "mlp down", "head")}
    codes = n * config.width * ((1 + 1 + 4) * config.layers + 1)
    weights = (3 + 4 + 4) * config.width**2 * config.layers + config.rows * config.width
    searched = 2 * codes if config.norm == "layer" else 0
    launches = 3 * (3 * config.layers + 1)
    found["scales"] = Work(0, searched + (4 + 4) * weights, codes + weights, launches, "bf16", "scales")
    return found


def _by_kernel(parts: Mapping[str, Work], n: int, config: Config, s: float) -> dict[str, Work]:
    """An activation that is part of its product, and a gradient that is part of the next one's, which reads it."""
    product, read = parts["mlp down backward"], s * n * 4 * config.width * config.layers
    return {name: replace(parts[name], bytes_read=0, bytes_written=0, launches=0)
            for name in ("activation", "activation backward")} | {
        "mlp down backward": replace(product, bytes_read=product.bytes_read + read)}  # fmt: skip


def _update(config: Config, shape: Transformer, world: int) -> dict[str, Work]:
    """Gradients to zero, their accumulation, the clipping, and the optimizers."""
    params, blocks = shape.parameters, config.layers * shape.block_weights
    sweeps = 4 + 2 if config.compile == "no" else 2 + 1  # of norm and scaling: read, write
    clip = elementwise(params, reads=sweeps - 2, writes=2) if config.compile == "no" else elementwise(params, reads=2)
    parts = {"gradients": elementwise(params, reads=2, writes=2), "clip": clip}
    tensors = config.layers * 6 + 2
    if config.optimizer == "adamw":
        return parts | {"update": optimizer_step(params, fused=config.fused_optimizer, tensors=tensors)}
    rest = optimizer_step(params - blocks, fused=config.fused_optimizer, tensors=4)
    square, d = 4 * config.layers * config.width**2, config.width  # queries, keys, values, projections
    muon = [optimizer_step(square, kind="muon", shape=(d, d)),
            optimizer_step(blocks - square, kind="muon", shape=(4 * d, d))]  # fmt: skip
    shared = [replace(work, flops=work.flops / world, dtype="bf16") for work in muon]
    return parts | {"update": rest, "newton-schulz": sum(shared, start=Work(launches=0, dtype="bf16"))}


def memory_bytes(config: Config) -> float:
    """The most that a step holds at once, on a GPU: what stays, what blocks keep, and the larger of two ends of it.

    Parameters, gradients and moments in fp32 stay; so does a copy of the parameters while a run warms up, when the peak
    is reached first. Weights that were cast to 16 bits are kept for the backward pass. On top of what all blocks keep
    (`kept_bytes`) comes either the loss or the first block that goes backward: the gradients of both sides of its
    activation and of the residual, 9 d, and the head's gradient twice.
    """
    shape, n, d = shape_of(config), config.sequences * config.length, config.width
    s = _size(config)
    fixed = state_and_gradient_bytes(config) + 4 * shape.parameters
    if s == 2:  # a product in fp8 casts its weight again, but for the projection's
        fixed += 2 * config.layers * (d * d if config.precision == "fp8" else shape.block_weights)
    outer = 3 * s + (6 if _widened(config) else 0)  # beside the blocks: embedding, last norm, what the head reads
    back = 9 * n * d * s + 8 * config.rows * d
    return fixed + n * (config.layers * kept_bytes(config) + outer * d) + max(_loss_bytes(config, n, s), back)


def state_and_gradient_bytes(config: Config) -> float:
    """Parameters, gradients and moments, in fp32: what a run needs before its first sequence."""
    shape = shape_of(config)
    blocks = config.layers * shape.block_weights if config.optimizer == "muon" else 0
    return 8 * shape.parameters + state_bytes(shape.parameters - blocks) + 4 * blocks


def kept_bytes(config: Config) -> float:
    """Bytes of a token that a block keeps for the backward pass, as torch's saved tensors count them on a processor.

    The base is 16 d numbers: what norms and products read, queries, keys and values, both sides of the activation
    (Korthikanti et al. 2022 count 17, with dropout). A compiler keeps as many: it joins operations, and what products
    read has to be there. Queries and keys that were rotated or normalized are kept beside the product they are made of;
    behind a rotation attention's result is copied, too. (Where scores are written, products read copies in any case.)
    Values and tokens that are mixed are kept before and after. Rooflab's MLP keeps one side of the activation. Eager
    norms without a gain keep their input in fp32.
    """
    s, numbers = _size(config), 16
    if config.attention != "plain":
        numbers += 3 if config.position == "rotary" else 2 * config.qk_norm
    numbers += config.value_skip + config.token_shift - 4 * (config.mlp == "kernel")
    found = float(numbers * s * config.width)
    if _widened(config):
        wide = 2 * 2  # both norms' inputs: four bytes in place of two
        wide += 2 * 4 * (config.qk_norm and config.rotation != "kernel")
        wide += config.value_skip  # what the mirrored half adds was kept as the next norm's input otherwise
        found += wide * config.width
    return found + s * config.head_count * config.length * (config.attention == "plain")


def _size(config: Config) -> int:
    return 4 if config.precision in ("fp32", "tf32") else 2


def _widened(config: Config) -> bool:
    """Whether norms keep copies of their inputs in fp32."""
    return config.norm == "rms" and config.compile == "no" and _size(config) == 2


def _loss_bytes(config: Config, n: int, s: int) -> float:
    """What is alive at once in the last layer and the loss.

    All logits, eager: log-softmax and two gradients in fp32, 12 bytes a logit; compiled they are kept once, and their
    gradient takes their place. In chunks, eager: 20 bytes a logit of a chunk (itself, in fp32, three numbers on the way
    to the gradient, the gradient of the chunk before); by a kernel a chunk and two gradients, compiled one. The
    weight's gradient is a sum in fp32; a compiler adds the chunks' products at the end, and holds them until then.
    """
    head, compiled = config.rows * config.width, config.compile != "no"
    if config.loss == "plain":
        return n * config.rows * (s if compiled else 12) + head * (2 * s if s == 2 or compiled else 4)
    logits = min(n, LOSS_CHUNK) * config.rows
    if compiled:
        return logits * 2 * s + head * s * (1 + math.ceil(n / LOSS_CHUNK))
    return logits * (20 if config.loss == "chunks" else 3 * s) + head * (4 + s)


def advice(config: Config, free_bytes: float) -> str:
    """What to lower, and by how much, so that a step fits into memory; one sentence."""
    needed = memory_bytes(config)
    told = f"The forecast for {config.sequences} sequences of {config.length} is {format_si(needed, 'B')}; "
    there = f"the device has {format_si(free_bytes, 'B')}"
    for batch in range(config.sequences - 1, 0, -1):
        if config.sequences % batch == 0:
            smaller = config.change(batch=batch, batch_factor=1)
            # What did not fit although it should have: leave as much room as it lacked.
            if memory_bytes(smaller) < min(free_bytes, needed) * 0.8:
                times = config.sequences * config.accumulation // batch
                return (
                    f"{told}{there}. Lower the batch from {config.sequences} to {batch} "
                    f"({format_si(memory_bytes(smaller), 'B')}), with accumulation {times} for the same step: "
                    f"--batch {batch} --set batch_factor=1 --set accumulation={times}."
                )
    fixed = memory_bytes(config.change(batch=1, batch_factor=1))
    least = "" if math.isclose(fixed, needed) else f" (one sequence alone: {format_si(fixed, 'B')})"
    return f"{told}{there}{least}. Lower the length, the width or the layers."
