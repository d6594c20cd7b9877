"""Attention of one query against a cache, against float64; bytes and faults."""

import math

import pytest

from rooflab import costs
from rooflab.counters import count
from rooflab.kernels.attend.blocks import key_splits
from rooflab.kernels.attend.torch_decode import attention_decode, decode

from .agreement import DEVICE, SHORT, counts, near, random, torch
from .test_attention import inputs, reference


@pytest.mark.parametrize("dtype", list(SHORT), ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1, 1, 16), (2, 4, 2, 1, 300, 64), (1, 2, 2, 1, 1025, 128), (1, 17, 1, 1, 77, 32)], ids=str
)
def test_results_agree_with_float64(shape, dtype):
    q, k, v = inputs(shape, dtype)
    right = reference(q.double(), k.double(), v.double())[0]
    near(attention_decode(q, k, v), right, length=shape[4], terms=1.0)


def test_strides_of_any_kind():
    q, k, v = inputs((2, 4, 2, 1, 70, 16))
    cache = torch.stack([k, v], 2).transpose(1, 3)  # (batch, keys, 2, heads, D)
    k2, v2 = (cache[:, :, i].transpose(1, 2) for i in range(2))
    q2 = torch.cat([q, q], -1)[..., :16].transpose(2, 3).contiguous().transpose(2, 3)
    torch.testing.assert_close(attention_decode(q2, k2, v2), attention_decode(q, k, v))


@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_nan_and_infinity():
    q, k, v = torch.ones(1, 1, 1, 16), torch.zeros(1, 1, 500, 16), random(1, 1, 500, 16)
    k[0, 0, :450, 0] = -math.inf  # whole stretches without any score
    q, k = q.to(DEVICE), k.to(DEVICE)
    near(attention_decode(q, k, v)[0, 0, 0], v[0, 0, 450:].double().mean(0), length=500)
    k[..., 0] = -math.inf
    assert attention_decode(q, k, v).isnan().all()
    k[..., 0] = 0.0
    k[0, 0, 7, 3] = math.nan
    assert attention_decode(q, k, v).isnan().all()


def test_without_keys_or_heads():
    q, k, v = inputs((1, 2, 2, 1, 0, 16))
    assert not attention_decode(q, k, v).any()
    assert attention_decode(*inputs((0, 2, 2, 1, 4, 16))).shape == (0, 2, 1, 16)


def test_what_does_not_fit_is_refused():
    q, k, v = inputs((1, 2, 2, 2, 4, 16))
    with pytest.raises(ValueError, match="one query a head; found 2"):
        attention_decode(q, k, v)


def test_the_operator_keeps_pytorchs_rules():
    q, k, v = inputs((1, 2, 1, 1, 9, 16))
    torch.library.opcheck(torch.ops.rooflab.attention_decode, (q, k, v, 0.25))
    compiled = torch.compile(lambda q, k, v: decode(q * 2, k, v, 0.25) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), decode(q * 2, k, v, 0.25) + 1)


def test_stretches_cover_the_keys_and_are_never_empty():
    for keys in (1, 63, 64, 65, 1000, 8192, 100_000):
        for heads in (1, 3, 16, 1000):
            chunk, splits = key_splits(keys, heads, 64, 4, 132)
            assert chunk % 64 == 0
            assert (splits - 1) * chunk < keys <= splits * chunk
            assert splits <= 128


@counts
def test_keys_and_values_are_read_once_and_nothing_else_counts():
    q, k, v = inputs((1, 8, 2, 1, 4000, 64), torch.bfloat16)
    counted = count(lambda: attention_decode(q, k, v), world="triton")
    least = costs.attention(1, 8, 1, 4000, 64, "bf16", kv_heads=2)
    assert not counted.faults
    assert counted.launches == 2
    assert least.bytes <= counted.bytes <= 1.05 * least.bytes
