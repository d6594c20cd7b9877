"""What does a forward pass or a training step of a transformer cost, and what part of it is which kind of kernel?

>>> from rooflab.costs import MODELS
>>> parts = transformer_parts(MODELS["gpt2"], 8, 1024, "bf16")
>>> contraction = sum(work.flops for name, work in parts.items() if PART_CLASS[name] == "contraction")
>>> round(contraction / sum(work.flops for work in parts.values()), 3)
0.998
"""

from __future__ import annotations

from dataclasses import replace

from rooflab.units import bytes_of

from .attention import attention
from .operators import elementwise, layer_norm, linear, matmul, reduction, rms_norm
from .optimizer import check_kind, optimizer_step
from .transformer import Transformer, check_model, check_recompute
from .work import Work, check_counts, check_flag

__all__ = ["PART_CLASS", "transformer_forward", "transformer_parts", "transformer_step"]

# The classes of Ivanov et al. 2021; "other" is what happens once a step.
PART_CLASS = {
    "embedding": "other",
    "norm": "normalization",
    "qkv": "contraction",
    "rotary": "elementwise",
    "attention": "contraction",
    "projection": "contraction",
    "mlp up": "contraction",
    "activation": "elementwise",
    "mlp down": "contraction",
    "residual": "elementwise",
    "final norm": "normalization",
    "head": "contraction",
    "loss": "normalization",
    "update": "other",
}
PART_CLASS |= {f"{name} backward": kind for name, kind in PART_CLASS.items() if name not in ("loss", "update")}
PART_CLASS |= {f"{name} again": kind for name, kind in PART_CLASS.items() if "backward" not in name}


def transformer_forward(
    model: Transformer, batch: int, length: int, dtype: str, *, causal: bool = True, fused_attention: bool = True
) -> Work:
    """One forward pass to the logits; the sum of `transformer_parts`."""
    parts = transformer_parts(model, batch, length, dtype, causal=causal, fused_attention=fused_attention)
    return replace(sum(parts.values(), start=Work(launches=0, dtype=dtype)), name="transformer forward")


def transformer_step(
    model: Transformer,
    batch: int,
    length: int,
    dtype: str,
    *,
    causal: bool = True,
    fused_attention: bool = True,
    recompute: str = "none",
    optimizer: str = "adamw",
) -> Work:
    """One training step: forward, loss, backward, update; the sum of `transformer_parts`.

    The FLOPs are those that the hardware does (HFU); with recompute="none" they are the model's (MFU), apart from
    the fraction of a per cent outside the contractions, for which `flops_per_token` has no term.
    """
    parts = transformer_parts(
        model, batch, length, dtype, causal=causal, fused_attention=fused_attention, training=True,
        recompute=recompute, optimizer=optimizer,
    )  # fmt: skip
    return replace(sum(parts.values(), start=Work(launches=0, dtype=dtype)), name="transformer step")


def transformer_parts(
    model: Transformer,
    batch: int,
    length: int,
    dtype: str,
    *,
    causal: bool = True,
    fused_attention: bool = True,
    training: bool = False,
    recompute: str = "none",
    optimizer: str = "adamw",
) -> dict[str, Work]:
    """The same pass by kind of kernel, each summed over the layers, as an eager framework with fused attention runs it.

    With n = batch length tokens. Contractions: each matrix (i, o) takes 2 n i o FLOPs forward and twice that backward
    (input and weight gradient); attention as in `attention`, twice that backward, for which q, k, v, the output and
    its gradient are read and three gradients written (a fused kernel also recomputes the scores; not counted).
    Normalizations, activations, rotary embedding and residual sums are one kernel each, forward and backward (the
    gradients of a normalization's few weights are left out).
    Loss: one kernel over the logits that leaves their gradient. Update: fp32 parameters, see `optimizer_step`.
    Recomputation repeats forward parts under the name "... again": all of the blocks ("full"), or attention
    ("selective").

    Raises:
        ValueError: for a sequence longer than a learned position table, or an unknown `recompute`.
    """
    check_model(model)
    batch, length = check_counts(batch=batch, length=length)
    training = check_flag("training", training)
    check_kind(optimizer)
    check_recompute(recompute, training)
    if model.positions == "learned" and length > model.context:
        raise ValueError(f"expected a length of at most the context, {model.context}; found {length}")
    blocks = _block_parts(model, batch, length, dtype, causal=causal, fused_attention=fused_attention)
    n, d = batch * length, model.width
    before = {"embedding": elementwise(n * d, reads=2 if model.positions == "learned" else 1, dtype=dtype)}
    after = {"final norm": _norm(model, n, dtype), "head": linear(n, d, model.vocabulary, dtype, bias=False)}
    parts = before | blocks | after
    if training:
        parts["loss"] = elementwise(n * model.vocabulary, dtype=dtype, flops_per_element=6)  # softmax 5, subtract 1
        again = {"none": [], "selective": ["attention"], "full": list(blocks)}[recompute]
        parts |= _backward_parts(model, batch, length, dtype, forward=parts)
        parts |= {f"{name} again": blocks[name] for name in again}
        parts["update"] = optimizer_step(model.parameters, kind=optimizer)
    return {name: replace(work, name=name) for name, work in parts.items()}


def _block_parts(
    model: Transformer, batch: int, length: int, dtype: str, *, causal: bool, fused_attention: bool
) -> dict[str, Work]:
    """The forward parts of all blocks."""
    n, layers, hidden = batch * length, model.layers, model.mlp_width
    linears = {name: linear(n, i, o, dtype, bias=model.biases) * layers for name, (i, o) in model.linears().items()}
    core = attention(
        batch, model.heads, length, length, model.head_dim, dtype,
        causal=causal, fused=fused_attention, kv_heads=model.kv_heads,
    )  # fmt: skip
    # GELU: 8 FLOPs (tanh form). SwiGLU, silu(a) b: negate, exponentiate, add, divide, multiply.
    act = elementwise(n * hidden, reads=2 if model.gated else 1, dtype=dtype, flops_per_element=5 if model.gated else 8)
    parts = {"norm": _norm(model, n, dtype) * 2 * layers, "qkv": linears["qkv"]}
    if model.positions == "rotary":  # two products and a sum for each element of q and k
        rotated = n * (model.query_width + model.kv_width)
        parts["rotary"] = elementwise(rotated, dtype=dtype, flops_per_element=3) * layers
    return parts | {
        "attention": core * layers,
        "projection": linears["projection"],
        "mlp up": linears["mlp up"],
        "activation": act * layers,
        "mlp down": linears["mlp down"],
        "residual": elementwise(n * model.width, reads=2, dtype=dtype) * (2 * layers),
    }


def _backward_parts(
    model: Transformer, batch: int, length: int, dtype: str, *, forward: dict[str, Work]
) -> dict[str, Work]:
    """The backward parts, in the order of the forward ones."""
    n, s, d = batch * length, bytes_of(dtype), model.width
    shapes = model.linears() | {"head": (d, model.vocabulary)}
    parts = {}
    for name, work in forward.items():
        repeats = 1 if name == "head" else model.layers
        if name in shapes:
            i, o = shapes[name]
            gradient = matmul(n, i, o, dtype) + matmul(i, o, n, dtype)  # of the input; of the weight
            if model.biases and name != "head":
                gradient += reduction(n * o, dtype, outputs=o)
            parts[f"{name} backward"] = gradient * repeats
        elif name == "attention":
            q, kv = s * n * model.query_width, 2 * s * n * model.kv_width
            scores = work.bytes_written / model.layers - q  # written where attention is not fused
            read, written = 3 * q + kv + 2 * scores, q + kv + 2 * scores
            parts["attention backward"] = replace(
                work, flops=2 * work.flops, bytes_read=read * model.layers, bytes_written=written * model.layers
            )
        elif name == "embedding":  # each token's gradient is added to its row: read gradient and row, write row
            parts["embedding backward"] = elementwise(n * d, reads=2, dtype=dtype)
        elif name != "loss":  # which has left its gradient already
            parts[f"{name} backward"] = _elementwise_backward(work, name)
    return parts


def _elementwise_backward(work: Work, name: str) -> Work:
    """Norms and activations read the gradient beside the input and do twice the arithmetic."""
    if name in ("residual", "rotary"):  # two gradients are added; the gradient is rotated back: no input is needed
        return work
    return replace(work, flops=2 * work.flops, bytes_read=work.bytes_read + work.bytes_written)


def _norm(model: Transformer, rows: int, dtype: str) -> Work:
    return (layer_norm if model.norm == "layer" else rms_norm)(rows, model.width, dtype)
