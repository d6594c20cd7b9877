"""The kernel for Hopper, its partitions run as threads: results, and that no barrier waits for ever."""

import numpy as np
import pytest

from rooflab.tolerances import tolerance

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.attend import triton_attention_hopper as hopper
from rooflab.kernels.attend import triton_backward_hopper as backward
from rooflab.kernels.attend import triton_queries_hopper as backward_queries

from . import gluon_threads as threads
from . import not_finite


def reference(q, k, v, causal):
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    k, v = (np.repeat(each, q.shape[1] // k.shape[1], 1) for each in (k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.triu(np.ones(s.shape[-2:], bool), s.shape[-1] - s.shape[-2] + 1), -np.inf, s)
    largest = s.max(-1, keepdims=True)
    p = np.exp(s - largest)
    return p @ v / p.sum(-1, keepdims=True), largest[..., 0] + np.log(p.sum(-1))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("heads", "few", "queries", "keys", "width", "n", "stages", "programs"),
    [
        (1, 1, 64, 64, 64, 128, 2, 1),
        (4, 2, 200, 300, 64, 128, 2, 3),
        (2, 2, 500, 500, 64, 64, 3, 3),
        (3, 1, 130, 130, 128, 128, 2, 2),
        (1, 1, 5, 700, 64, 128, 2, 1),
        (2, 1, 1, 1, 64, 128, 2, 9),
    ],
)
def test_results_agree_with_float64(heads, few, queries, keys, width, n, stages, programs, causal):
    generator = np.random.default_rng(0)
    sizes = ((2, heads, queries, width), (2, few, keys, width), (2, few, keys, width))
    q, k, v = (generator.standard_normal(size).astype(np.float16) for size in sizes)
    o, step = np.full_like(q, np.nan), -(-queries // 4) * 4
    lse = np.full(2 * heads * step, np.nan, np.float32)
    blocks = -(-queries // 128)
    blocks += blocks % 2 if causal else 0
    tiles = blocks * 2 * heads
    rows = [threads.Descriptor(each, size) for each, size in ((o, 64), (q, 64), (k, n), (v, n))]
    threads.run_grid(
        "attention_hopper_kernel", hopper, min(programs, tiles), rows[0], threads.Pointer(lse), *rows[1:], heads,
        heads // few, blocks, tiles, queries, keys, step, width**-0.5, CAUSAL=causal, N=n, D=width, STAGES=stages,
    )  # fmt: skip
    right, right_lse = reference(q, k, v, causal)
    allowed = tolerance("fp16", keys, scale=float(np.abs(right).max()))
    np.testing.assert_allclose(o, right, rtol=allowed.rtol, atol=allowed.atol)
    np.testing.assert_allclose(lse.reshape(2, heads, step)[..., :queries], right_lse, rtol=1e-5, atol=1e-5)
    assert np.isfinite(lse).all()


def test_a_barrier_that_nobody_completes_is_found(monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE_S", 0.1)
    barrier = threads.Barrier()
    barrier.count = barrier.left = 2
    barrier.wait(1)  # of the phase before the first: passes
    barrier.update(1, 0)
    with pytest.raises(TimeoutError):
        barrier.wait(0)
    barrier.update(1, 0)
    barrier.wait(0)


def backward_reference(q, k, v, do, causal):
    """Return lse, delta, dq, dk, dv in float64."""
    o, lse = reference(q, k, v, causal)
    group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    q, k, v, do = (each.astype(np.float64) for each in (q, k, v, do))
    wide_k, wide_v = (np.repeat(each, group, 1) for each in (k, v))
    p = np.exp(q @ wide_k.swapaxes(-1, -2) * scale - lse[..., None])
    hidden = np.triu(np.ones(p.shape[-2:], bool), p.shape[-1] - p.shape[-2] + 1) & causal
    p = np.where(hidden, 0.0, p)
    delta = (o * do).sum(-1)
    ds = np.where(hidden, 0.0, p * (do @ wide_v.swapaxes(-1, -2) - delta[..., None]) * scale)
    shape = (k.shape[0], k.shape[1], group, *k.shape[2:])
    dk, dv = ((left.swapaxes(-1, -2) @ right).reshape(shape).sum(2) for left, right in ((ds, q), (p, do)))
    return lse, delta, ds @ wide_k, dk, dv


def statistics(each, step):
    padded = np.zeros((*each.shape[:2], step), np.float32)
    padded[..., : each.shape[2]] = each
    return padded.reshape(-1, step)


BACKWARD = pytest.mark.parametrize(
    ("heads", "few", "queries", "keys", "width", "stages"),
    [
        (1, 1, 64, 64, 64, 2),
        (2, 1, 200, 300, 64, 2),
        (2, 2, 130, 130, 64, 3),
        (3, 1, 130, 130, 128, 2),
        (1, 1, 5, 200, 64, 2),
    ],
)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@BACKWARD
def test_gradients_of_keys_and_values_agree_with_float64(heads, few, queries, keys, width, stages, causal):
    generator = np.random.default_rng(1)
    sizes = [(2, heads, queries, width), (2, few, keys, width)]
    q, do, k, v = (generator.standard_normal(sizes[i]).astype(np.float16) for i in (0, 0, 1, 1))
    lse, delta, _, *right = backward_reference(q, k, v, do, causal)
    step = -(-queries // 4) * 4
    dk, dv = (np.full_like(each, np.nan) for each in (k, v))
    given = (dk, dv, do, statistics(lse, step), statistics(delta, step), q, k, v)
    threads.run_grid(
        "keys_backward_hopper_kernel", backward, -(-keys // 64) * 2 * few,
        *(threads.Descriptor(each, 64) for each in given), heads, heads // few, queries, keys, width**-0.5,
        CAUSAL=causal, M=64, N=64, D=width, STAGES=stages,
    )  # fmt: skip
    for found, wanted in zip((dk, dv), right, strict=True):
        allowed = tolerance("fp16", queries * heads // few, scale=float(np.abs(wanted).max()))
        np.testing.assert_allclose(found, wanted, rtol=allowed.rtol, atol=allowed.atol)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")  # 0 times infinity
def test_an_infinite_key_meets_no_query_beyond_the_end(causal):
    generator = np.random.default_rng(3)
    q, do, k, v = (generator.random((1, 1, rows, 64)).astype(np.float16) for rows in (5, 5, 7, 7))
    k[0, 0, 1] = -np.inf
    lse, delta, _, _, right_dv = backward_reference(q, k, v, do, causal)
    dk, dv = (np.full_like(each, np.nan) for each in (k, v))
    given = (dk, dv, do, statistics(lse, 8), statistics(delta, 8), q, k, v)
    given[3][0, 5:] = np.nan  # as the forward pass leaves it
    threads.run_grid(
        "keys_backward_hopper_kernel", backward, 1, *(threads.Descriptor(each, 64) for each in given), 1, 1, 5, 7,
        64**-0.5, CAUSAL=causal, M=64, N=64, D=64, STAGES=2,
    )  # fmt: skip
    np.testing.assert_allclose(dv, right_dv, atol=0.01)
    assert np.isfinite(dk).all()


@pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # in what is not finite
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(9, 12), (64, 64), (70, 130)])
def test_gradients_are_finite_wherever_those_of_the_masked_formula_are(queries, keys, causal):
    generator, heads = np.random.default_rng(4), len(not_finite.HEADS)
    sizes = [(1, heads, rows, 64) for rows in (queries, queries, keys, keys)]
    q, do, k, v = (generator.standard_normal(size).astype(np.float16) for size in sizes)
    not_finite.spoil(q, k, do)
    lse, _, *wanted = backward_reference(q, k, v, do, causal)
    o, step = reference(q, k, v, causal)[0].astype(np.float16), -(-queries // 4) * 4
    delta, (dq, dk, dv) = np.full(heads * step, np.nan, np.float32), (np.full_like(each, np.nan) for each in (q, k, v))
    rows = [threads.Descriptor(each, 64) for each in (dq, o, do, q, k, v)]
    more = {"CAUSAL": causal, "M": 64, "N": 64, "D": 64, "STAGES": 2}
    threads.run_grid(
        "queries_backward_hopper_kernel", backward_queries, -(-queries // 64) * heads, rows[0],
        threads.Pointer(delta), *rows[1:3], threads.Pointer(statistics(lse, step).ravel()), *rows[3:], heads, 1,
        queries, keys, step, 0.125, **more,
    )  # fmt: skip
    given = (dk, dv, do, statistics(lse, step), delta.reshape(heads, step), q, k, v)
    threads.run_grid(
        "keys_backward_hopper_kernel", backward, -(-keys // 64) * heads,
        *(threads.Descriptor(each, 64) for each in given), heads, 1, queries, keys, 0.125, **more,
    )  # fmt: skip
    not_finite.check_where_finite((dq, dk, dv), wanted, causal=causal, rtol=0.01, atol=0.02)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@BACKWARD
def test_gradients_of_queries_agree_with_float64(heads, few, queries, keys, width, stages, causal):
    generator = np.random.default_rng(2)
    sizes = [(2, heads, queries, width), (2, few, keys, width)]
    q, do, k, v = (generator.standard_normal(sizes[i]).astype(np.float16) for i in (0, 0, 1, 1))
    lse, right_delta, right, _, _ = backward_reference(q, k, v, do, causal)
    o = reference(q, k, v, causal)[0].astype(np.float16)
    step = -(-queries // 4) * 4
    delta, dq = np.full(2 * heads * step, np.nan, np.float32), np.full_like(q, np.nan)
    rows = [threads.Descriptor(each, 64) for each in (dq, o, do, q, k, v)]
    threads.run_grid(
        "queries_backward_hopper_kernel", backward_queries, -(-queries // 64) * 2 * heads, rows[0],
        threads.Pointer(delta), *rows[1:3], threads.Pointer(statistics(lse, step).ravel()), *rows[3:], heads,
        heads // few, queries, keys, step, width**-0.5, CAUSAL=causal, M=64, N=64, D=width, STAGES=stages,
    )  # fmt: skip
    allowed = tolerance("fp16", keys, scale=float(np.abs(right).max()))
    np.testing.assert_allclose(dq, right, rtol=allowed.rtol, atol=allowed.atol)
    found = delta.reshape(2, heads, step)
    np.testing.assert_allclose(found[..., :queries], right_delta, rtol=allowed.rtol, atol=allowed.rtol * width)
    assert not found[..., queries:].any()
