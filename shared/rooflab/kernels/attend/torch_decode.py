"""Attention of one query against a cache, as an operator of PyTorch.

>>> import torch
>>> q, k, v = torch.zeros(1, 2, 1, 16), torch.zeros(1, 1, 3, 16), torch.arange(3.0)[:, None].expand(1, 1, 3, 16)
>>> attention_decode(q, k, v)[0, :, 0, 0]
tensor([1., 1.])
"""

from __future__ import annotations

from typing import Any

import torch

from ..demands import never, positive, refuse
from ..launching import launch
from ..tuning import choose
from .blocks import decode_blocks, key_splits, size_key
from .torch_attention import check_heads, usual_scale
from .torch_descriptors import described
from .triton_decode import combine_kernel, decode_kernel

__all__ = ["attention_decode", "decode"]


def attention_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None) -> torch.Tensor:
    """Return softmax(scale q k^T) v for one query a head, reading keys and values once.

    Args:
        q: of shape (batch, heads, 1, D), float32, bfloat16 or float16; D is 16, 32, 64 or 128.
        k: keys, (batch, kv_heads, keys, D); heads is a multiple of kv_heads. Strides as :func:`attention` takes them.
        v: values, as k.
        scale: of the scores, 2^-126 to 2^126 (default: 1 / sqrt(D)).

    Returns:
        the shape and format of q, contiguous. It has no gradient. Without any keys it is zero; NaN and infinity go
        where they go in :func:`attention`.

    Raises:
        TypeError: for other formats.
        ValueError: for shapes that do not fit together, more than one query, or another scale.
    """
    return decode(q, k, v, usual_scale(q) if scale is None else scale)


@torch.library.custom_op("rooflab::attention_decode", mutates_args=())
def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the output; see :func:`attention_decode`.

    Args:
        q: of shape (batch, heads, 1, D).
        k: of shape (batch, kv_heads, keys, D).
        v: as k.
        scale: of the scores.
    """
    check_heads("attention_decode", q, k, v)
    if q.shape[2] != 1:
        refuse("attention_decode", f"expected one query a head; found {q.shape[2]}: use attention for more.")
    positive("attention_decode", "scale", scale)
    batch, heads, _, width = q.shape
    few, keys = k.shape[1:3]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if not keys or not q.numel():
        return o.zero_()
    query = q if q.stride(3) == 1 else q.contiguous()
    group = heads // few
    rows = max(16, 1 << (group - 1).bit_length())  # a matrix instruction takes no fewer

    def run(choice: Any) -> None:
        sizes = {key: value for key, value in choice.items() if key != "PER_SM"}
        chunk, splits = key_splits(keys, batch * few, choice["N"], choice["PER_SM"], _processors(q))
        parts = torch.empty(batch * heads, splits, width, dtype=torch.float32, device=q.device)
        largest, sums = (torch.empty(batch * heads, splits, dtype=torch.float32, device=q.device) for _ in range(2))
        launch(
            decode_kernel, (splits * batch * few,), parts, largest, sums, query, described(k, choice["N"]),
            described(v, choice["N"]), query.stride(0), query.stride(1), few, group, keys, chunk, splits, scale,
            D=width, R=rows, **sizes,
        )  # fmt: skip
        cols = min(width, 32)
        launch(
            combine_kernel, (batch * heads * (width // cols),), o, parts, largest, sums, splits,
            S=1 << (splits - 1).bit_length(), D=width, COLS=cols, num_warps=4,
        )  # fmt: skip

    run(choose("attention_decode", size_key(width, keys, batch * few), decode_blocks(width, q.itemsize), run, q.device))
    return o


def _processors(q: torch.Tensor) -> int:
    return 4 if q.device.type == "cpu" else torch.cuda.get_device_properties(q.device).multi_processor_count


@decode.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    return q.new_empty(q.shape)


never("attention_decode", decode, "use attention for one")
