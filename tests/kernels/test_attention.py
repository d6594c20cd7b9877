"""Attention against float64: shapes, strides, formats, masks, values, gradients, bytes and faults."""

import math
import re

import pytest

from rooflab import costs
from rooflab.counters import count
from rooflab.kernels.attend.torch_attention import (
    attention,
    attention_backward,
    attention_with_lse,
)

from . import not_finite
from .agreement import DEVICE, SHORT, counts, kernels, near, random, torch

# batch, heads, heads of k and v, queries, keys, D: blocks of 32 to 128 end inside, at and beyond each length.
SHAPES = [(1, 2, 1, 37, 41, 16), (2, 2, 2, 130, 300, 64), (1, 1, 1, 257, 257, 128), (1, 4, 2, 1, 65, 32)]
DTYPES = list(SHORT)


def reference(q, k, v, causal=False, scale=None):
    """The definition, with the last query seeing every key."""
    group = q.shape[1] // max(1, k.shape[1])
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(s.shape[-1] - s.shape[-2] + 1)
        s = s.masked_fill(hidden, -math.inf)
    return s.softmax(-1) @ v, s.logsumexp(-1)


def inputs(shape, dtype=torch.float32):
    batch, heads, few, queries, keys, width = shape
    sizes = ((batch, heads, queries, width), (batch, few, keys, width), (batch, few, keys, width))
    return [random(*size, dtype=dtype, seed=seed) for seed, size in enumerate(sizes)]


def agree(given, *, causal=False, mine=attention, lse=True):
    """Compare results and gradients with float64; p and ds are rounded to the format, so errors are those of terms."""
    leaves = [each.detach().requires_grad_() for each in given]
    doubles = [each.detach().double().requires_grad_() for each in given]
    o = mine(*leaves, causal=causal)
    right, right_lse = reference(*doubles, causal=causal)
    do = random(*o.shape, dtype=o.dtype, seed=9)
    longest = max(given[0].shape[2] * given[0].shape[1] // given[1].shape[1], given[1].shape[2])
    near(o, right, length=longest, what="o")
    found, wanted = torch.autograd.grad(o, leaves, do), torch.autograd.grad(right, doubles, do.double())
    terms = max(float(each.abs().max()) for each in wanted)
    for name, leaf, one, other in zip("qkv", leaves, found, wanted, strict=True):
        assert one.dtype == leaf.dtype
        near(one, other, length=longest, what=f"d{name}", terms=terms)
    if lse:
        told = attention_with_lse(*given, causal, given[0].shape[-1] ** -0.5)[1]
        near(told[..., : given[0].shape[2]], right_lse, length=longest, what="lse", dtype=torch.float32)
        assert told.isfinite().all()  # also where queries are rounded up


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_and_gradients_agree_with_float64(shape, dtype, causal):
    agree(inputs(shape, dtype), causal=causal)


@pytest.mark.parametrize("queries", [1, 63, 64, 65, 128, 129])
@pytest.mark.parametrize("more", [0, 1, 64, 100])
def test_the_causal_mask_ends_anywhere_in_a_block(queries, more):
    agree(inputs((1, 1, 1, queries, queries + more, 16), torch.float16), causal=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
        lambda x: x.repeat(1, 1, 2, 1)[:, :, ::2],
        lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
        lambda x: torch.cat([x, x[..., :1]], -1)[..., :-1],
        lambda x: x[:, :1].expand_as(x),
        lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view_as(x),
    ],
    ids=[
        "heads inside",
        "a slice of D",
        "every other row",
        "D outside",
        "odd rows",
        "one head for all",
        "odd beginning",
    ],
)
def test_strides_of_any_kind(change):
    agree([change(each) for each in inputs((2, 2, 2, 40, 50, 16), torch.bfloat16)])


def test_a_gradient_of_any_strides():
    q, k, v = (each.requires_grad_() for each in inputs((1, 2, 1, 20, 30, 16)))
    doubles = [each.detach().double().requires_grad_() for each in (q, k, v)]
    for change in (lambda o: o.sum((1, 2)), lambda o: o.transpose(2, 3) * 2, lambda o: o[:, :, ::2]):
        found = torch.autograd.grad(change(attention(q, k, v)).sum(), (q, k, v))
        wanted = torch.autograd.grad(change(reference(*doubles)[0]).sum(), doubles)
        for one, other in zip(found, wanted, strict=True):
            near(one, other, length=40, terms=4.0)


def test_the_output_keeps_the_order_of_the_dimensions_of_q():
    q, k, v = (each.transpose(1, 2) for each in inputs((1, 20, 20, 2, 2, 16)))
    assert attention(q, k, v).transpose(1, 2).is_contiguous()


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # of NumPy, which interprets the largest of a row of NaN
def test_nan_and_infinity_go_where_they_go_in_torch():
    q, k, v = inputs((1, 1, 1, 9, 70, 16))
    q[0, 0, 2, 3] = math.nan
    q[0, 0, 4] = 0.0
    q[0, 0, 4, 0] = math.inf  # scores of plus and minus infinity
    o = attention(q, k, v)
    right = reference(q.double(), k.double(), v.double())[0]
    assert o[0, 0, 2].isnan().all()
    assert right[0, 0, 4].isnan().all()
    near(o, right, length=70)
    v[0, 0, 69, 1] = math.inf
    assert attention(q, k, v)[0, 0, 0, 1] == math.inf


@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_a_row_without_any_score_is_nan_and_one_that_begins_without_is_not():
    q, k, v = torch.ones(1, 1, 2, 16), torch.zeros(1, 1, 200, 16), inputs((1, 1, 1, 2, 200, 16))[2]
    q[0, 0, 1, 0] = -1.0
    k[0, 0, :150, 0] = -math.inf
    q, k = q.to(DEVICE), k.to(DEVICE)
    o = attention(q, k, v)
    near(o[0, 0, 0], v[0, 0, 150:].double().mean(0), length=200)
    k[..., 0] = -math.inf
    assert attention(q[:, :, :1], k, v).isnan().all()


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 3), (2, 4), (64, 64), (67, 131)])
def test_a_key_of_minus_infinity_spoils_no_gradient_but_those_that_it_has_in_torch(queries, keys, causal):
    q, k, v = inputs((1, 2, 1, queries, keys, 16))
    q, k = q.abs() + 0.1, k.clone()
    k[0, 0, 1] = -math.inf
    leaves = [each.requires_grad_() for each in (q, k, v)]
    doubles = [each.detach().double().requires_grad_() for each in leaves]
    right = reference(*doubles, causal=causal)[0]
    do = random(*right.shape, seed=9)
    found = torch.autograd.grad(attention(*leaves, causal=causal), leaves, do)
    wanted = torch.autograd.grad(right, doubles, do.double())
    assert wanted[0].isnan().all()  # 0 times minus infinity, which torch adds up, too
    for one, other in zip(found, wanted, strict=True):
        near(one, other, length=keys + 2 * queries, terms=4.0)


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(9, 12), (64, 64), (67, 131)])
def test_gradients_are_finite_wherever_those_of_the_masked_formula_are(queries, keys, causal):
    heads = len(not_finite.HEADS)
    given = inputs((1, heads, heads, queries, keys, 16))
    do = random(1, heads, queries, 16, seed=9)
    not_finite.spoil(given[0], given[1], do)
    leaves = [each.clone().requires_grad_() for each in given]
    doubles = [each.double().requires_grad_() for each in given]
    found = torch.autograd.grad(attention(*leaves, causal=causal), leaves, do)
    wanted = torch.autograd.grad(reference(*doubles, causal=causal)[0], doubles, do.double())
    found, wanted = ([each.cpu().numpy() for each in some] for some in (found, wanted))
    not_finite.check_where_finite(found, wanted, causal=causal, rtol=1e-4, atol=1e-4)


def test_large_scores_do_not_overflow():
    q, k, v = inputs((1, 1, 1, 20, 90, 16))
    q = q * 1e4  # exp of the scores is infinite, and even their rounding errors are of the order of 0.01
    right = reference(q.double(), k.double(), v.double())[0]
    torch.testing.assert_close(attention(q, k, v).double(), right, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("empty", ["batch", "heads", "queries", "keys"])
def test_what_is_empty_stays_empty(empty):
    sizes = {"batch": (0, 2, 2, 3, 4), "heads": (1, 0, 0, 3, 4), "queries": (1, 2, 2, 0, 4), "keys": (1, 2, 2, 3, 0)}
    q, k, v = (each.requires_grad_() for each in inputs((*sizes[empty], 16)))
    o = attention(q, k, v)
    assert o.shape == q.shape
    assert not o.any()
    o.sum().backward()
    assert not any(each.grad.any() for each in (q, k, v))


def test_a_scale_of_ones_own():
    q, k, v = inputs((1, 1, 1, 5, 6, 16))
    near(attention(q, k, v, scale=0.5), reference(q.double(), k.double(), v.double(), scale=0.5)[0], length=16)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (TypeError, lambda q, k, v: (q.double(), k, v), "float64"),
        (ValueError, lambda q, k, v: (q[0], k, v), "expected \\(batch, heads, length, D\\)"),
        (ValueError, lambda q, k, v: (q, k, v[:, :, :5]), "the same for k and v"),
        (ValueError, lambda q, k, v: (q.half(), k, v), "one format"),
        (ValueError, lambda q, k, v: (q[..., :8], k, v), "the same batch and D"),
        (ValueError, lambda q, k, v: (q[..., :8], k[..., :8], v[..., :8]), "D to be one of"),
        (ValueError, lambda q, k, v: (q[:, :3], k, v), "a multiple"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(kind, change, words):
    with pytest.raises(kind, match=words):
        attention(*change(*inputs((1, 4, 2, 6, 7, 16))))


def test_a_mask_that_leaves_queries_without_keys_is_refused():
    q, k, v = inputs((1, 1, 1, 7, 6, 16))
    with pytest.raises(ValueError, match="at least as many keys as queries under a causal mask; found 6 < 7"):
        attention(q, k, v, causal=True)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e-50, 1e-39, 1e39, 3e38])
def test_a_scale_that_is_zero_or_not_finite_in_float32_is_refused(scale):
    q, k, v = inputs((1, 1, 1, 1, 6, 16))
    for call, name in ((kernels.attention, "attention"), (kernels.attention_decode, "attention_decode")):
        with pytest.raises(
            ValueError, match=f"^{name}: expected a positive scale .* found {re.escape(f'{scale:g}')}\\.$"
        ):
            call(q, k, v, scale=scale)


@pytest.mark.parametrize("scale", [2.0**-126, 2.0**126], ids=str)
def test_the_outermost_scales_are_taken(scale):
    q, k, v = inputs((1, 1, 1, 1, 6, 16))
    q, k = (each / math.sqrt(8 * scale) for each in (q, k))  # so that no score is too large before it is scaled
    right = reference(q.double(), k.double(), v.double(), scale=scale)[0]
    for call in (kernels.attention, kernels.attention_decode):
        near(call(q, k, v, scale=scale), right, length=64)


def test_gradients_are_the_same_each_time():
    q, k, v = inputs((1, 2, 1, 100, 100, 16))
    o, lse = attention_with_lse(q, k, v, True, 0.25)
    first, again = (attention_backward(o, q, k, v, o, lse, True, 0.25) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_operators_keep_pytorchs_rules(causal):
    q, k, v = (each.requires_grad_() for each in inputs((1, 2, 1, 5, 9, 16)))
    torch.library.opcheck(torch.ops.rooflab.attention, (q, k, v, causal, 0.25))
    o, lse = attention_with_lse(q.detach(), k.detach(), v.detach(), causal, 0.25)
    given = [each.detach() for each in (o, q, k, v, o, lse)]
    torch.library.opcheck(torch.ops.rooflab.attention_backward, (*given, causal, 0.25))


def test_it_compiles_as_a_whole():
    q, k, v = (each.requires_grad_() for each in inputs((1, 2, 1, 20, 30, 16)))

    def step(q, k, v):
        return attention(q * 2, k, v, causal=True) + 1

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))
    wanted = torch.autograd.grad(step(q, k, v).sum(), (q, k, v))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@counts
def test_it_moves_what_the_cost_model_says_and_has_no_faults():
    q, k, v = inputs((1, 2, 2, 64, 128, 64), torch.bfloat16)  # one block of queries a head: k and v are read once
    counted = count(lambda: attention(q, k, v), world="triton")
    least = costs.attention(1, 2, 64, 128, 64, "bf16")
    assert not counted.faults
    assert counted.bytes_read == least.bytes_read
    assert counted.bytes_written == least.bytes_written + 4 * 2 * 64  # and lse
    assert counted.flops >= least.flops


@counts
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_backward_pass_has_no_faults(causal):
    q, k, v = inputs((2, 4, 2, 70, 135, 16), torch.float16)
    o, lse = attention_with_lse(q, k, v, causal, 0.25)
    counted = count(lambda: attention_backward(o, q, k, v, o, lse, causal, 0.25), world="triton")
    assert counted.launches == 2
    assert not counted.faults


@counts
def test_a_causal_mask_saves_blocks():
    q, k, v = inputs((1, 1, 1, 512, 512, 16), torch.bfloat16)
    full, causal = (count(lambda c=c: attention(q, k, v, causal=c), world="triton") for c in (False, True))
    assert causal.flops / full.flops == pytest.approx(sum(range(1, 9)) / 64, rel=0.02)  # 8 blocks of 64
