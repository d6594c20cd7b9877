"""Costs against hand cases, against arithmetic that counts itself, and against properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import costs
from rooflab.costs import MODELS, RECOMPUTE, Link, Transformer, Work
from rooflab.units import FORMATS, bytes_of

sizes = st.integers(1, 3000)
small = st.integers(1, 12)
dtypes = st.sampled_from(sorted(FORMATS))
counts = st.integers(0, 10**12)
works = st.builds(
    Work,
    flops=counts,
    bytes_read=counts,
    bytes_written=counts,
    launches=st.integers(0, 99),
    dtype=dtypes,
    name=st.text(max_size=3),
)


def figures(work: Work) -> tuple[float, float, float, int]:
    return work.flops, work.bytes_read, work.bytes_written, work.launches


class TestWork:
    @given(works, works)
    def test_one_after_the_other_sums_everything(self, one: Work, two: Work) -> None:
        both = one + two
        assert figures(both) == tuple(a + b for a, b in zip(figures(one), figures(two), strict=True))
        assert both.dtype == (one if one.flops >= two.flops else two).dtype

    @given(works, st.integers(0, 5))
    def test_repeats_are_sums(self, work: Work, repeats: int) -> None:
        assert figures(work * repeats) == figures(sum([work] * repeats, start=Work(launches=0)))
        assert work * repeats == repeats * work

    def test_sum_works_without_a_start(self) -> None:
        assert sum([Work(flops=1), Work(flops=2)]) == Work(flops=3, launches=2)  # type: ignore[comparison-overlap]

    def test_intensity(self) -> None:
        assert Work(flops=6, bytes_read=8, bytes_written=4).intensity == 0.5
        assert Work(flops=6).intensity == math.inf

    def test_names_are_joined_once(self) -> None:
        assert (Work(name="a") + Work(name="b") + Work()).name == "a + b"
        assert (Work(name="a") + Work(name="a")).name == "a"

    def test_names_of_libraries_become_ours(self) -> None:
        assert Work(dtype="torch.bfloat16").dtype == "bf16"

    def test_it_is_written_in_a_line(self) -> None:
        assert str(costs.axpy(1000, "fp32")) == "axpy: 2 kFLOP, 12 kB, 1 kernel"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"flops": -1},
            {"bytes_read": math.nan},
            {"launches": -1},
            {"dtype": "fp128"},
            {"flops": "3"},
            {"flops": math.inf},
            {"launches": True},
            {"bytes_read": 1j},
        ],
    )
    def test_nonsense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="expected"):
            Work(**wrong)

    @pytest.mark.parametrize("operation", [lambda w: w + 1, lambda w: w * 1.5, lambda w: 1 + w])
    def test_only_works_add_and_only_whole_repeats_multiply(self, operation: Callable[[Work], object]) -> None:
        with pytest.raises(TypeError):
            operation(Work())


class TestHandCases:
    """Numbers worked out in the comments."""

    @pytest.mark.parametrize(
        ("work", "flops", "read", "written"),
        [
            # 2 * 2 * 3 * 4 = 48; 4 bytes * (2*4 + 4*3) = 80; 4 * 2*3 = 24
            (costs.matmul(2, 3, 4, "fp32"), 48, 80, 24),
            (costs.matmul(2, 3, 4, "bf16", batch=5), 240, 200, 60),
            # half a byte: 0.5 * 20 = 10; 0.5 * 6 = 3
            (costs.matmul(2, 3, 4, "fp4"), 48, 10, 3),
            # 2 * 3 * 4 = 24; 2 * (12 + 4) = 32; 2 * 3 = 6
            (costs.matvec(3, 4, "bf16"), 24, 32, 6),
            # 48 and 6 adds; 80 and a bias of 3 * 4 = 12
            (costs.linear(2, 4, 3, "fp32"), 54, 92, 24),
            (costs.linear(2, 4, 3, "fp32", bias=False), 48, 80, 24),
            # 2 * 2 * 64 * 3 = 768; 96 bytes of weights, 2 * 3 * 2 of scales, 2 * 2 * 64 of x; 2 * 2 * 3
            (costs.quantized_linear(2, 64, 3, "bf16", weights="int4", group=32), 768, 96 + 12 + 256, 12),
            (costs.quantized_linear(2, 64, 3, "bf16", weights="fp8"), 768, 192 + 6 + 256, 12),
            (costs.axpy(10, "fp32"), 20, 80, 40),
            (costs.copy(10, "fp32"), 0, 40, 40),
            (costs.elementwise(10, reads=3, writes=2, dtype="bf16", flops_per_element=7), 70, 60, 40),
            (costs.reduction(12, "fp32"), 11, 48, 4),
            (costs.reduction(12, "fp32", outputs=3), 9, 48, 12),
            (costs.softmax(3, 4, "fp32"), 60, 48, 48),
            # 7 * 12 = 84; 4 * (12 + 8) = 80
            (costs.layer_norm(3, 4, "fp32"), 84, 80, 48),
            (costs.rms_norm(3, 4, "fp32"), 48, 64, 48),
            (costs.gelu(10, "fp32"), 50, 40, 40),
            (costs.gelu(10, "fp32", form="tanh"), 80, 40, 40),
            # 4 * 2*3 heads * D=8 * 4*5 pairs = 3840; q 2*3*4*8 = 192, k and v 2 * 2*3*5*8 = 480: 672 * 2 bytes
            (costs.attention(2, 3, 4, 5, 8, "bf16"), 3840, 1344, 384),
            # scores 2*3*4*5 = 120, read twice and written twice: 480 bytes each way
            (costs.attention(2, 3, 4, 5, 8, "bf16", fused=False), 3840, 1824, 864),
            # causal, 4 queries on 5 keys see 2 + 3 + 4 + 5 = 14 pairs: 4 * 6 * 8 * 14
            (costs.attention(2, 3, 4, 5, 8, "bf16", causal=True), 2688, 1344, 384),
            # 4 query heads share 2: q 4*8, k and v 2 * 2*16*8: decoding one token
            (costs.attention(1, 4, 1, 16, 8, "bf16", kv_heads=2), 4 * 4 * 8 * 16, 2 * (32 + 512), 64),
        ],
    )
    def test_counts(self, work: Work, flops: float, read: float, written: float) -> None:
        assert (work.flops, work.bytes_read, work.bytes_written) == (flops, read, written)

    def test_launches(self) -> None:
        assert costs.attention(1, 1, 4, 4, 8, "bf16").launches == 1
        assert costs.attention(1, 1, 4, 4, 8, "bf16", fused=False).launches == 3
        assert costs.softmax(4, 4, "fp32").launches == 1

    def test_the_format_of_the_arithmetic_may_differ_from_that_in_memory(self) -> None:
        work = costs.elementwise(10, dtype="bf16", arithmetic="fp32")
        assert (work.bytes, work.dtype) == (40, "fp32")

    def test_intensities_of_the_roofline_chapter(self) -> None:
        assert costs.axpy(1000, "fp32").intensity == pytest.approx(1 / 6)
        assert costs.matmul(300, 300, 300, "fp32").intensity == pytest.approx(300 / 6)  # 2n^3 / 3sn^2 = 2n / 3s
        assert costs.matvec(10**4, 10**4, "bf16").intensity == pytest.approx(1, rel=1e-3)


class Number(float):
    """A number that counts the operations done on all of its kind."""

    done = 0

    def _count(self, value: float) -> Number:
        Number.done += 1
        return Number(value)

    def __add__(self, other: float) -> Number:
        return self._count(float(self) + float(other))

    def __sub__(self, other: float) -> Number:
        return self._count(float(self) - float(other))

    def __mul__(self, other: float) -> Number:
        return self._count(float(self) * float(other))

    def __truediv__(self, other: float) -> Number:
        return self._count(float(self) / float(other))

    def apply(self, function: Callable[..., float], *others: float) -> Number:
        return self._count(function(float(self), *map(float, others)))


def operations(program: Callable[[], object]) -> int:
    Number.done = 0
    program()
    return Number.done


def numbers(n: int) -> list[Number]:
    return [Number(0.5 + i) for i in range(n)]


def total(values: Sequence[Number], start: Number | None = None) -> Number:
    result, rest = (values[0], values[1:]) if start is None else (start, values)
    for value in rest:
        result = result + value
    return result


class TestAgainstArithmeticThatCountsItself:
    """Each formula written out naively; a row's few extra operations are bounded, not counted."""

    @given(small, small, small)
    def test_matmul(self, m: int, n: int, k: int) -> None:
        def program() -> None:
            for _ in range(m * n):
                total([x * y for x, y in zip(numbers(k), numbers(k), strict=True)], start=Number(0))

        assert operations(program) == costs.matmul(m, n, k, "fp32").flops

    @given(st.integers(1, 40))
    def test_axpy_and_reduction(self, n: int) -> None:
        a = Number(2)
        assert (
            operations(lambda: [a * x + y for x, y in zip(numbers(n), numbers(n), strict=True)])
            == costs.axpy(n, "fp32").flops
        )
        assert operations(lambda: total(numbers(n))) == costs.reduction(n, "fp32").flops

    @given(small, st.integers(2, 40))
    def test_softmax(self, rows: int, cols: int) -> None:
        def row() -> None:
            x = numbers(cols)
            top = x[0]
            for value in x[1:]:
                top = top.apply(max, value)
            e = [(value - top).apply(math.exp) for value in x]
            divisor = total(e)
            assert sum(float(v / divisor) for v in e) == pytest.approx(1)

        done = operations(lambda: [row() for _ in range(rows)])
        assert done == costs.softmax(rows, cols, "fp32").flops - 2 * rows  # the maximum and the sum start with a value

    @given(small, st.integers(2, 40))
    def test_layer_norm(self, rows: int, cols: int) -> None:
        def row() -> None:
            x, weight, bias = numbers(cols), numbers(cols), numbers(cols)
            mean = total(x) / cols
            centred = [value - mean for value in x]
            variance = total([c * c for c in centred]) / cols
            scale = (variance + 1e-5).apply(lambda v: 1 / math.sqrt(v))
            for c, w, b in zip(centred, weight, bias, strict=True):
                _ = c * scale * w + b

        extra = operations(lambda: [row() for _ in range(rows)]) - costs.layer_norm(rows, cols, "fp32").flops
        assert extra == 2 * rows  # two divisions, an add, a square root, less the two adds that start the sums

    @given(small, st.integers(2, 40))
    def test_rms_norm(self, rows: int, cols: int) -> None:
        def row() -> None:
            x, weight = numbers(cols), numbers(cols)
            scale = (total([v * v for v in x]) / cols + 1e-5).apply(lambda v: 1 / math.sqrt(v))
            for value, w in zip(x, weight, strict=True):
                _ = value * scale * w

        extra = operations(lambda: [row() for _ in range(rows)]) - costs.rms_norm(rows, cols, "fp32").flops
        assert extra == 2 * rows

    def test_gelu(self) -> None:
        x, c, d = Number(0.7), Number(0.7978845608), Number(0.0356774081)
        one, half = Number(1), Number(0.5)
        assert operations(lambda: half * x * (one + (x * c).apply(math.erf))) == costs.gelu(1, "fp32").flops
        tanh = operations(lambda: half * x * (one + (x * (c + d * x * x)).apply(math.tanh)))
        assert tanh == costs.gelu(1, "fp32", form="tanh").flops

    def test_optimizers(self) -> None:
        p, g, m, v, a, b, lr, decay, eps = numbers(9)

        def momentum() -> Number:
            return p - lr * (a * m + g)

        def adamw() -> Number:
            first, second = a * m + b * g, a * v + b * g * g
            step = (first / a) / ((second / b).apply(math.sqrt) + eps)
            return p * decay - lr * step

        assert operations(lambda: p - lr * g) == costs.optimizer_step(1, kind="sgd").flops
        assert operations(momentum) == costs.optimizer_step(1, kind="momentum").flops
        assert operations(adamw) == costs.optimizer_step(1, kind="adamw").flops

    @given(small, small, st.integers(1, 4), small, st.booleans())
    def test_attention_pairs(self, queries: int, more: int, heads: int, head_dim: int, causal: bool) -> None:
        keys = queries + more - 1
        pairs = sum(1 for q in range(queries) for k in range(keys) if not causal or k <= q + keys - queries)
        assert costs.attended_pairs(queries, keys, causal=causal) == pairs
        work = costs.attention(1, heads, queries, keys, head_dim, "fp32", causal=causal)
        assert work.flops == heads * pairs * 2 * (2 * head_dim)  # a dot product and an update of the output


class TestProperties:
    @given(sizes, sizes, sizes, dtypes)
    def test_matmul_is_symmetric_in_m_and_n(self, m: int, n: int, k: int, dtype: str) -> None:
        assert figures(costs.matmul(m, n, k, dtype)) == figures(costs.matmul(n, m, k, dtype))

    @given(sizes, sizes, sizes, dtypes, st.integers(1, 9))
    def test_a_batch_multiplies_all_counts_but_the_launch(self, m: int, n: int, k: int, dtype: str, batch: int) -> None:
        one, many = costs.matmul(m, n, k, dtype), costs.matmul(m, n, k, dtype, batch=batch)
        assert (many.flops, many.bytes) == (batch * one.flops, batch * one.bytes)
        assert many.launches == 1
        assert many.intensity == pytest.approx(one.intensity)

    @given(sizes, sizes, sizes, sizes, dtypes)
    def test_splitting_a_sum_adds_flops_and_never_saves_bytes(
        self, m: int, n: int, k: int, more: int, dtype: str
    ) -> None:
        whole = costs.matmul(m, n, k + more, dtype)
        parts = costs.matmul(m, n, k, dtype) + costs.matmul(m, n, more, dtype)
        assert parts.flops == whole.flops
        assert parts.bytes > whole.bytes

    @given(sizes, dtypes)
    def test_intensity_grows_with_the_size_of_a_matmul_only(self, n: int, dtype: str) -> None:
        assert costs.matmul(2 * n, 2 * n, 2 * n, dtype).intensity > costs.matmul(n, n, n, dtype).intensity
        assert costs.axpy(2 * n, dtype).intensity == pytest.approx(costs.axpy(n, dtype).intensity)

    @given(sizes, sizes, dtypes)
    def test_a_matvec_is_bound_by_its_matrix(self, m: int, n: int, dtype: str) -> None:
        assert costs.matvec(m, n, dtype).intensity < 2 / bytes_of(dtype)

    @given(sizes, sizes, sizes)
    def test_half_the_bits_double_the_intensity(self, m: int, n: int, k: int) -> None:
        wide, narrow = costs.matmul(m, n, k, "fp32"), costs.matmul(m, n, k, "bf16")
        assert narrow.intensity == pytest.approx(2 * wide.intensity)

    @given(sizes, st.integers(1, 6), dtypes)
    def test_fusing_a_chain_saves_all_traffic_between(self, n: int, length: int, dtype: str) -> None:
        chain = costs.elementwise(n, dtype=dtype) * length
        fused = costs.elementwise(n, dtype=dtype, flops_per_element=length)
        assert fused.flops == chain.flops
        assert fused.bytes * length == pytest.approx(chain.bytes)

    @given(small, small, sizes, st.integers(0, 500), st.integers(1, 256), dtypes, st.booleans())
    def test_fused_attention_does_no_more(
        self, batch: int, heads: int, queries: int, more: int, head_dim: int, dtype: str, causal: bool
    ) -> None:
        args = (batch, heads, queries, queries + more, head_dim, dtype)
        fused = costs.attention(*args, causal=causal)
        unfused = costs.attention(*args, causal=causal, fused=False)
        assert fused.bytes < unfused.bytes
        assert fused.flops <= unfused.flops
        assert fused.launches < unfused.launches

    @given(small, small, sizes, st.integers(1, 256), dtypes, st.booleans())
    def test_causal_attention_does_no_more_than_full(
        self, batch: int, heads: int, length: int, head_dim: int, dtype: str, fused: bool
    ) -> None:
        full = costs.attention(batch, heads, length, length, head_dim, dtype, fused=fused)
        causal = costs.attention(batch, heads, length, length, head_dim, dtype, fused=fused, causal=True)
        assert causal.flops <= full.flops
        assert causal.bytes == full.bytes
        if fused:
            assert causal.flops / full.flops == pytest.approx((length + 1) / (2 * length))

    @given(small, small, sizes, sizes, st.integers(1, 256), dtypes)
    def test_unfused_attention_is_two_products_and_a_softmax(
        self, batch: int, heads: int, queries: int, keys: int, head_dim: int, dtype: str
    ) -> None:
        pairs = batch * heads
        parts = (
            costs.matmul(queries, keys, head_dim, dtype, batch=pairs)
            + costs.softmax(pairs * queries, keys, dtype)
            + costs.matmul(queries, head_dim, keys, dtype, batch=pairs)
        )
        whole = costs.attention(batch, heads, queries, keys, head_dim, dtype, fused=False)
        assert whole.bytes == pytest.approx(parts.bytes)
        assert whole.launches == parts.launches
        assert whole.flops == parts.flops - 5 * pairs * queries * keys  # the softmax is left out by convention

    @given(st.sampled_from(["softmax", "layer_norm", "rms_norm"]), sizes, sizes, dtypes)
    def test_rows_are_independent(self, name: str, rows: int, cols: int, dtype: str) -> None:
        operator = getattr(costs, name)
        assert operator(2 * rows, cols, dtype).flops == 2 * operator(rows, cols, dtype).flops
        assert operator(2 * rows, cols, dtype).bytes_written == 2 * operator(rows, cols, dtype).bytes_written

    @pytest.mark.parametrize(
        "call",
        [
            lambda: costs.matmul(0, 1, 1, "fp32"),
            lambda: costs.matmul(2.5, 1, 1, "fp32"),  # type: ignore[arg-type]
            lambda: costs.elementwise(-1),
            lambda: costs.matmul(math.inf, 1, 1, "fp32"),  # type: ignore[arg-type]
            lambda: costs.softmax(1, 0, "fp32"),
            lambda: costs.softmax("8", 1, "fp32"),  # type: ignore[arg-type]
            lambda: costs.softmax(True, 1, "fp32"),
            lambda: costs.softmax(None, 1, "fp32"),  # type: ignore[arg-type]
            lambda: costs.reduction(3, "fp32", outputs=4),
            lambda: costs.gelu(3, "fp32", form="sigmoid"),
            lambda: costs.attention(1, 4, 2, 2, 8, "fp32", kv_heads=3),
            lambda: costs.attended_pairs(3, 2, causal=True),
            lambda: costs.axpy(3, "fp128"),
        ],
    )
    def test_nonsense_is_refused(self, call: Callable[[], Work]) -> None:
        with pytest.raises(ValueError, match="expected"):
            call()


class TestOptimizers:
    @pytest.mark.parametrize(("kind", "bytes_each"), [("sgd", 12), ("momentum", 20), ("adamw", 28)])
    def test_bytes_a_parameter(self, kind: str, bytes_each: int) -> None:
        # sgd: read p, g, write p; each state is read and written besides: 4 (3 + 2 states).
        assert costs.optimizer_step(1000, kind=kind).bytes == 1000 * bytes_each

    def test_8_bit_states(self) -> None:
        # 2 states of a byte and a 4-byte scale for 256: 2 * (1024 + 4 * 4) = 2080, of which the scales are 1.6 %
        assert costs.state_bytes(1024, kind="adamw8bit") == 2080
        assert costs.state_bytes(1024, kind="adamw") == 8192
        # read 8 a parameter and the state, write 4 and the state
        assert costs.optimizer_step(1024, kind="adamw8bit").bytes == 12 * 1024 + 2 * 2080

    def test_eager_adamw_moves_20_arrays_in_8_kernels_a_tensor(self) -> None:
        eager = costs.optimizer_step(1000, kind="adamw", fused=False, tensors=3)
        assert (eager.bytes, eager.launches) == (80_000, 24)
        assert eager.flops == costs.optimizer_step(1000, kind="adamw").flops

    @pytest.mark.parametrize(("kind", "arrays", "kernels"), [("sgd", 3, 1), ("momentum", 8, 3)])
    def test_other_eager_updates(self, kind: str, arrays: int, kernels: int) -> None:
        # sgd: p, g in, p out. momentum: m; m, g; p, m in and one out each.
        eager = costs.optimizer_step(1000, kind=kind, fused=False)
        assert (eager.bytes, eager.launches) == (4000 * arrays, kernels)

    def test_newton_schulz_by_hand(self) -> None:
        # m = 2, n = 3: X X^T 2*2*2*3 = 24, A A 2*8 = 16, B X 24: 64 a step, 5 steps
        work = costs.newton_schulz(3, 2)
        assert (work.flops, work.launches) == (320, 15)
        assert figures(work) == figures(costs.newton_schulz(2, 3))

    @given(st.integers(1, 500), st.integers(1, 500))
    def test_newton_schulz_is_three_products(self, rows: int, cols: int) -> None:
        m, n = min(rows, cols), max(rows, cols)
        products = sum(
            (costs.matmul(m, m, n, "bf16"), costs.matmul(m, m, m, "bf16"), costs.matmul(m, n, m, "bf16")),
            start=Work(launches=0),
        )
        work = costs.newton_schulz(rows, cols, steps=1)
        assert work.flops == products.flops
        assert work.bytes_read == products.bytes_read - 2 * (m * n + m * m)  # X X^T reads X once, A A reads A once
        assert work.bytes_written == products.bytes_written

    def test_muon_is_an_update_and_newton_schulz_on_every_matrix(self) -> None:
        work = costs.optimizer_step(2 * 64 * 32, kind="muon", shape=(64, 32))
        assert work.flops == 2 * costs.newton_schulz(64, 32).flops + 7 * 2 * 64 * 32
        assert work.launches == 2 + 2 * 15

    @pytest.mark.parametrize(
        "wrong",
        [{"kind": "lion"}, {"kind": "muon"}, {"kind": "muon", "shape": (7, 3)}, {"kind": "adamw8bit", "fused": False}],
    )
    def test_nonsense_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="expected"):
            costs.optimizer_step(1000, **wrong)


widths = st.lists(st.integers(1, 300), min_size=2, max_size=5)


class TestMLP:
    def test_a_step_by_hand(self) -> None:
        # widths 3, 4, 2 at batch 5. Forward: 2*5*12 + 5*4, relu 20, 2*5*8 + 5*2 = 140 + 20 + 90 = 250.
        assert costs.mlp([3, 4, 2], 5, "fp32").flops == 250
        assert costs.mlp_params([3, 4, 2]) == 16 + 10
        # Loss 3*10 + 2*10 = 50. Layer 2: dW 80, db 10 - 2 = 8, dx 80, relu 20. Layer 1: dW 120, db 20 - 4 = 16.
        # Update 2 * 26 = 52. Together 250 + 50 + 188 + 136 + 52.
        step = costs.mlp([3, 4, 2], 5, "fp32", training=True)
        assert step.flops == 676
        assert step.launches == 3 + 2 + 4 + 2 + 1

    @given(widths, st.integers(1, 100), st.booleans())
    def test_parts_sum_to_the_whole(self, shape: list[int], batch: int, training: bool) -> None:
        parts = costs.mlp_parts(shape, batch, "fp32", training=training)
        assert figures(costs.mlp(shape, batch, "fp32", training=training)) == figures(
            sum(parts.values(), start=Work(launches=0))
        )
        assert all(name == work.name for name, work in parts.items())

    @given(widths, st.integers(1, 100))
    def test_doubling_the_batch_doubles_forward_flops_but_not_bytes(self, shape: list[int], batch: int) -> None:
        one, two = costs.mlp(shape, batch, "fp32"), costs.mlp(shape, 2 * batch, "fp32")
        assert two.flops == 2 * one.flops
        assert one.bytes < two.bytes < 2 * one.bytes  # the weights are read once
        assert two.launches == one.launches

    @given(st.lists(st.integers(64, 300), min_size=4, max_size=6))
    def test_a_step_is_about_three_forward_passes(self, shape: list[int]) -> None:
        products = sum(2 * 4096 * i * o for i, o in pairwise(shape))
        expected = 3 * products - 2 * 4096 * shape[0] * shape[1]  # no gradient of the input
        assert costs.mlp(shape, 4096, "fp32", training=True).flops == pytest.approx(expected, rel=0.05)

    @pytest.mark.parametrize("shape", [[], [3], [3, 0], [3, -1, 2]])
    def test_nonsense_is_refused(self, shape: list[int]) -> None:
        with pytest.raises(ValueError, match="expected"):
            costs.mlp(shape, 5, "fp32")


def contractions(parts: dict[str, Work]) -> float:
    return sum(work.flops for name, work in parts.items() if costs.PART_CLASS[name] == "contraction")


shapes = st.builds(
    Transformer,
    layers=st.integers(1, 4),
    width=st.sampled_from([64, 128, 192]),
    heads=st.sampled_from([4, 8]),
    vocabulary=st.integers(10, 1000),
    context=st.just(512),
    kv_heads=st.sampled_from([0, 1, 2]),
    gated=st.booleans(),
    biases=st.booleans(),
    norm=st.sampled_from(["layer", "rms"]),
    positions=st.sampled_from(["learned", "rotary"]),
    tied=st.booleans(),
)


class TestTransformer:
    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            # As counted from the published checkpoints.
            ("gpt2", 124_439_808),
            ("gpt2-medium", 354_823_168),
            ("gpt2-large", 774_030_080),
            ("gpt2-xl", 1_557_611_200),
            ("llama2-7b", 6_738_415_616),
            ("llama3-8b", 8_030_261_248),
            ("llama3-70b", 70_553_706_496),
        ],
    )
    def test_parameters_of_published_models(self, name: str, parameters: int) -> None:
        assert costs.transformer_params(MODELS[name]) == MODELS[name].parameters == parameters

    def test_parameters_by_the_formula(self) -> None:
        # L (12 d^2 + 13 d) + V d + T d + 2 d at L=2, d=8, V=10, T=4: 2 (768 + 104) + 80 + 32 + 16
        assert Transformer(2, 8, 2, 10, context=4).parameters == 1872

    def test_flops_per_token_by_hand(self) -> None:
        # 12 d^2 L = 1536 and V d = 80 weights: 2 * 1616 = 3232; attention 4 * 8 * 2 layers * 4 keys = 256
        model = Transformer(2, 8, 2, 10, context=4)
        assert costs.flops_per_token(model, 4, causal=False, training=False) == 3232 + 256
        assert costs.flops_per_token(model, 4, training=False) == 3232 + 256 * 10 / 16  # 1 + 2 + 3 + 4 of 16 pairs
        assert costs.flops_per_token(model, 4, causal=False) == 3 * 3488
        assert costs.flops_per_token(model, 4, causal=False, recompute="selective") == 3 * 3488 + 256
        assert costs.flops_per_token(model, 4, causal=False, recompute="full") == 3 * 3488 + 256 + 2 * 1536

    def test_palm_formula(self) -> None:
        model = MODELS["gpt2"]
        expected = 6 * model.multiplied_weights + 12 * 12 * 12 * 64 * 1024  # 6 N + 12 L H Q T
        assert costs.flops_per_token(model, 1024, causal=False) == expected

    @given(shapes, st.integers(1, 4), st.integers(1, 512), st.booleans(), st.sampled_from(RECOMPUTE))
    def test_parts_agree_with_flops_per_token(
        self, model: Transformer, batch: int, length: int, causal: bool, recompute: str
    ) -> None:
        tokens = batch * length
        forward = costs.transformer_parts(model, batch, length, "bf16", causal=causal)
        step = costs.transformer_parts(model, batch, length, "bf16", causal=causal, training=True, recompute=recompute)
        bias = sum(o for _, o in model.linears().values()) * model.layers * tokens * model.biases
        found = contractions(forward) - bias
        assert found == pytest.approx(tokens * costs.flops_per_token(model, length, causal=causal, training=False))
        biases = bias * (3 if recompute == "full" else 2) - bool(model.biases) * model.layers * sum(
            o for _, o in model.linears().values()
        )
        found = contractions(step) - biases
        assert found == pytest.approx(
            tokens * costs.flops_per_token(model, length, causal=causal, recompute=recompute), rel=1e-9
        )

    @given(shapes, st.integers(1, 3), st.integers(1, 256))
    def test_recomputation_costs_more_the_more_is_recomputed(self, model: Transformer, batch: int, length: int) -> None:
        steps = [costs.transformer_step(model, batch, length, "bf16", recompute=r) for r in RECOMPUTE]
        for less, more in pairwise(steps):
            assert less.flops < more.flops
            assert less.bytes < more.bytes
            assert less.launches < more.launches

    def test_full_recomputation_costs_about_a_third_more(self) -> None:
        model = MODELS["llama3-70b"]
        ratio = costs.flops_per_token(model, 4096, recompute="full") / costs.flops_per_token(model, 4096)
        assert ratio == pytest.approx(4 / 3, rel=0.02)  # a little less: the head is not repeated

    @given(shapes, st.integers(1, 3), st.integers(1, 256))
    def test_parts_sum_to_the_whole_and_have_a_class(self, model: Transformer, batch: int, length: int) -> None:
        parts = costs.transformer_parts(model, batch, length, "bf16", training=True, recompute="full")
        whole = costs.transformer_step(model, batch, length, "bf16", recompute="full")
        assert figures(whole) == pytest.approx(figures(sum(parts.values(), start=Work(launches=0))))
        assert set(parts) <= set(costs.PART_CLASS)
        assert ("rotary" in parts) == (model.positions == "rotary")

    @given(shapes, st.integers(1, 3), st.integers(1, 256))
    def test_doubling_the_batch_doubles_flops_and_saves_bytes(
        self, model: Transformer, batch: int, length: int
    ) -> None:
        one = costs.transformer_forward(model, batch, length, "bf16")
        two = costs.transformer_forward(model, 2 * batch, length, "bf16")
        assert two.flops == 2 * one.flops
        assert one.bytes < two.bytes < 2 * one.bytes

    def test_contractions_do_over_99_per_cent_of_the_flops(self) -> None:
        # Ivanov et al. 2021, of BERT; a GPT of the same size is no different.
        parts = costs.transformer_parts(MODELS["gpt2-medium"], 8, 512, "bf16", training=True)
        assert contractions(parts) / sum(work.flops for work in parts.values()) > 0.99

    @pytest.mark.parametrize(
        ("part", "flops", "read", "written", "launches"),
        [
            # One layer, d = 8, 2 heads of 4, V = 10; n = 4 tokens in fp32, so s n d = 128 bytes.
            ("embedding", 32, 256, 128, 1),
            ("norm", 2 * 7 * 32, 2 * 4 * (32 + 16), 256, 2),
            ("qkv", 2 * 4 * 8 * 24 + 96, 4 * (32 + 192 + 24), 384, 1),
            ("attention", 4 * 2 * 4 * 10, 3 * 128, 128, 1),  # 1 + 2 + 3 + 4 pairs
            ("projection", 2 * 4 * 8 * 8 + 32, 4 * (32 + 64 + 8), 128, 1),
            ("mlp up", 2 * 4 * 8 * 32 + 128, 4 * (32 + 256 + 32), 512, 1),
            ("activation", 8 * 128, 512, 512, 1),
            ("mlp down", 2 * 4 * 32 * 8 + 32, 4 * (128 + 256 + 8), 128, 1),
            ("residual", 64, 512, 256, 2),
            ("final norm", 7 * 32, 4 * (32 + 16), 128, 1),
            ("head", 2 * 4 * 8 * 10, 4 * (32 + 80), 160, 1),
            ("loss", 6 * 40, 160, 160, 1),
            # g W^T: 96 + 192 in, 32 out; x^T g: 32 + 96 in, 192 out; sums of g: 96 in, 24 out
            ("qkv backward", 2 * 1536 + 72, 4 * (288 + 128 + 96), 4 * (32 + 192 + 24), 3),
            ("attention backward", 640, 5 * 128, 3 * 128, 1),  # q, k, v, o, do in; dq, dk, dv out
            ("norm backward", 2 * 448, 384 + 256, 256, 2),
            ("activation backward", 2048, 1024, 512, 1),
            ("residual backward", 64, 512, 256, 2),
            ("head backward", 2 * 640, 4 * (40 + 80 + 32 + 40), 4 * (32 + 80), 2),
            ("embedding backward", 32, 256, 128, 1),
            ("attention again", 320, 384, 128, 1),
            ("update", 15 * 1048, 16 * 1048, 12 * 1048, 1),  # 12 d^2 + 13 d + V d + T d + 2 d = 872 + 80 + 80 + 16
        ],
    )
    def test_parts_by_hand(self, part: str, flops: float, read: float, written: float, launches: int) -> None:
        model = Transformer(1, 8, 2, 10, context=10)
        parts = costs.transformer_parts(model, 1, 4, "fp32", training=True, recompute="selective")
        assert figures(parts[part]) == (flops, read, written, launches)
        assert [name for name in parts if name.endswith("again")] == ["attention again"]

    def test_scores_in_memory_cost_bytes_forward_and_backward(self) -> None:
        model = MODELS["gpt2"]
        fused, unfused = (
            costs.transformer_parts(model, 1, 1024, "bf16", training=True, fused_attention=f) for f in (True, False)
        )
        scores_bytes = 2 * 12 * 12 * 1024 * 1024  # s L H T T
        assert unfused["attention"].bytes - fused["attention"].bytes == 4 * scores_bytes
        assert unfused["attention backward"].bytes - fused["attention backward"].bytes == 8 * scores_bytes

    @pytest.mark.parametrize(
        "call",
        [
            lambda: Transformer(1, 64, 0, 10),
            lambda: Transformer(1, 64, 4, 10, kv_heads=3),
            lambda: Transformer(1, 64, 4, 10, norm="batch"),
            lambda: Transformer(1, 2, 4, 10),  # heads of width zero
            lambda: costs.flops_per_token(MODELS["gpt2"], 8, recompute="some"),
            lambda: costs.flops_per_token(MODELS["gpt2"], 8, training=False, recompute="full"),
            lambda: costs.transformer_forward(MODELS["gpt2"], 1, 1025, "bf16"),
        ],
    )
    def test_nonsense_is_refused(self, call: Callable[[], object]) -> None:
        with pytest.raises(ValueError, match="expected"):
            call()


LINK = Link(alpha_s=1e-6, beta_bytes_per_s=1e9)
COLLECTIVES = (costs.allreduce, costs.reduce_scatter, costs.all_gather, costs.broadcast, costs.all_to_all)
links = st.builds(Link, alpha_s=st.floats(0, 1e-3), beta_bytes_per_s=st.floats(1e6, 1e12))
messages = st.floats(1, 1e11)
ALLREDUCES = ["ring", "tree", "double_tree", "halving_doubling"]


class TestCollectives:
    @pytest.mark.parametrize(
        ("found", "steps", "sent"),
        [
            # 8 ranks, 800 bytes; h = 3
            (costs.allreduce(800, 8, LINK), 14, 1400),  # 2 * 7 messages of 100
            (costs.allreduce(800, 8, LINK, algorithm="tree"), 6, 4800),  # 3 up and 3 down of 800
            (costs.allreduce(800, 8, LINK, algorithm="double_tree", chunks=8), 20, 2000),  # 2 (3 + 8 - 1) of 100
            (costs.allreduce(800, 8, LINK, algorithm="halving_doubling"), 6, 1400),  # 400 + 200 + 100, twice
            (costs.reduce_scatter(800, 8, LINK), 7, 700),
            (costs.reduce_scatter(800, 8, LINK, algorithm="halving"), 3, 700),
            (costs.all_gather(800, 8, LINK), 7, 700),
            (costs.all_gather(800, 8, LINK, algorithm="doubling"), 3, 700),
            (costs.broadcast(800, 8, LINK), 3, 2400),
            (costs.broadcast(800, 8, LINK, algorithm="ring", chunks=8), 14, 1400),  # 7 + 7 messages of 100
            (costs.all_to_all(800, 8, LINK), 7, 700),
            (costs.allreduce(800, 6, LINK, algorithm="tree"), 6, 4800),  # h = ceil(log2 6) = 3
        ],
    )
    def test_steps_and_bytes_by_hand(self, found: costs.Collective, steps: int, sent: float) -> None:
        assert found.steps == steps
        assert found.sent_bytes == pytest.approx(sent)
        assert found.time_s == pytest.approx(steps * 1e-6 + sent / 1e9)

    def test_a_ring_simulated_message_by_message(self) -> None:
        # Each rank holds k chunks and in every step sends one to the right, which adds it (k-1 steps) or keeps it.
        k, sent, steps = 5, [0] * 5, 0
        chunks = [[10**rank] * k for rank in range(k)]
        for step in range(2 * (k - 1)):
            moving = [(rank, (rank - step) % k, chunks[rank][(rank - step) % k]) for rank in range(k)]
            for rank, chunk, value in moving:
                right = (rank + 1) % k
                chunks[right][chunk] = chunks[right][chunk] + value if step < k - 1 else value
                sent[rank] += 1
            steps += 1
        assert chunks == [[11111] * k] * k
        model = costs.allreduce(k, k, LINK)  # a chunk is one byte
        assert (steps, sent[0]) == (model.steps, model.sent_bytes)

    @given(messages, st.sampled_from([2, 4, 8, 64]), links, st.sampled_from(ALLREDUCES), st.integers(1, 100))
    def test_no_allreduce_sends_less_than_the_ring(
        self, n_bytes: float, ranks: int, link: Link, algorithm: str, chunks: int
    ) -> None:
        found = costs.allreduce(n_bytes, ranks, link, algorithm=algorithm, chunks=chunks)
        assert found.sent_bytes >= 2 * (ranks - 1) / ranks * n_bytes * (1 - 1e-12)
        assert found.bus_bytes_per_s <= link.beta_bytes_per_s * (1 + 1e-9)

    @given(messages, st.integers(1, 64), links)
    def test_an_allreduce_is_a_reduce_scatter_and_an_all_gather(self, n_bytes: float, ranks: int, link: Link) -> None:
        halves = costs.reduce_scatter(n_bytes, ranks, link), costs.all_gather(n_bytes, ranks, link)
        assert costs.allreduce(n_bytes, ranks, link).time_s == pytest.approx(sum(half.time_s for half in halves))

    def test_bus_bandwidth_as_nccl_tests_define_it(self) -> None:
        free = Link(alpha_s=0, beta_bytes_per_s=1e9)
        ring = costs.allreduce(1e6, 4, free)
        assert ring.algorithm_bytes_per_s == pytest.approx(1e9 / 1.5)
        assert ring.bus_bytes_per_s == pytest.approx(1e9)  # of an ideal ring: the link's own rate
        assert costs.all_gather(1e6, 4, free).bus_bytes_per_s == pytest.approx(1e9)
        assert costs.all_to_all(1e6, 4, free).bus_bytes_per_s == pytest.approx(1e9)
        assert costs.broadcast(1e6, 4, free, algorithm="ring", chunks=10**6).bus_bytes_per_s == pytest.approx(
            1e9, rel=1e-5
        )
        # The reference text's beta, defined by the time 2N/beta, is twice the algorithm bandwidth.
        beta = 2 * ring.n_bytes / ring.time_s
        assert beta == pytest.approx(2 * ring.algorithm_bytes_per_s)
        assert beta == pytest.approx(ring.bus_bytes_per_s * 4 / 3)  # k / (k - 1)

    def test_one_rank_needs_no_message(self) -> None:
        for algorithm in ALLREDUCES:
            alone = costs.allreduce(1e6, 1, LINK, algorithm=algorithm)
            assert (alone.time_s, alone.algorithm_bytes_per_s, alone.bus_bytes_per_s) == (0, math.inf, 0)
        assert costs.broadcast(1e6, 1, LINK, algorithm="ring", chunks=4).time_s == 0

    @given(st.sampled_from([4, 8, 16, 64]), links.filter(lambda link: link.alpha_s > 1e-9))
    def test_at_the_crossover_both_take_as_long(self, ranks: int, link: Link) -> None:
        def both(n_bytes: float) -> tuple[float, float]:
            tree = costs.allreduce(n_bytes, ranks, link, algorithm="tree")
            return tree.time_s, costs.allreduce(n_bytes, ranks, link).time_s

        size = costs.crossover_bytes(costs.allreduce(1, ranks, link, algorithm="tree"), costs.allreduce(1, ranks, link))
        tree_s, ring_s = both(size)
        assert tree_s == pytest.approx(ring_s)
        assert both(size / 2)[0] < both(size / 2)[1]
        assert both(size * 2)[0] > both(size * 2)[1]

    def test_a_crossover_needs_a_trade(self) -> None:
        ring = costs.allreduce(1, 8, LINK)
        best = costs.allreduce(1, 8, LINK, algorithm="halving_doubling")
        with pytest.raises(ValueError, match="fewer steps"):
            costs.crossover_bytes(best, ring)  # as few bytes in fewer steps: always faster
        with pytest.raises(ValueError, match="same ranks"):
            costs.crossover_bytes(ring, costs.allreduce(1, 4, LINK))

    @pytest.mark.parametrize(
        "call",
        [
            lambda: costs.allreduce(1, 6, LINK, algorithm="halving_doubling"),
            lambda: costs.all_gather(1, 6, LINK, algorithm="doubling"),
            lambda: costs.allreduce(1, 8, LINK, algorithm="butterfly"),
            lambda: costs.broadcast(1, 8, LINK, algorithm="butterfly"),
            lambda: costs.reduce_scatter(1, 8, LINK, algorithm="doubling"),
            lambda: costs.allreduce(0, 8, LINK),
            lambda: costs.allreduce(1, 0, LINK),
            lambda: costs.broadcast(1, 8, LINK, chunks=0),
            lambda: costs.broadcast(1, 8, LINK, chunks=1.5),  # type: ignore[arg-type]
            lambda: costs.allreduce(math.nan, 8, LINK),
            lambda: costs.allreduce(math.inf, 8, LINK),
            lambda: costs.all_to_all("1 GB", 8, LINK),  # type: ignore[arg-type]
            *(lambda k=k, c=c: c(1, k, LINK) for k in (1.5, 2.0, True, -2, "2", None, math.nan) for c in COLLECTIVES),
            lambda: Link(-1, 1),
            lambda: Link(math.nan, 1),
            lambda: Link(math.inf, 1),
            lambda: Link(0, math.nan),
            lambda: Link(0, math.inf),
            lambda: Link(0, -1),
            lambda: Link("1 µs", 1),  # type: ignore[arg-type]
            lambda: Link(0, True),
            lambda: Link(0, 0),
        ],
    )
    def test_nonsense_is_refused(self, call: Callable[[], object]) -> None:
        with pytest.raises(ValueError, match="expected"):
            call()

    def test_ranks_that_are_no_power_of_two_are_told_what_fits(self) -> None:
        with pytest.raises(ValueError, match=r"such as 4 or 8; found 6: the ring takes any number"):
            costs.allreduce(1, 6, LINK, algorithm="halving_doubling")

    @pytest.mark.parametrize("collective", COLLECTIVES)
    def test_what_is_no_link(self, collective: Any) -> None:
        with pytest.raises(TypeError, match="expected a link, as in Link"):
            collective(1, 8, 450e9)

    def test_ranks_of_numpy_count_as_well(self) -> None:
        for collective in COLLECTIVES:
            assert collective(1, np.int64(8), LINK).time_s == collective(1, 8, LINK).time_s


class TestNumpyIntegers:
    """NumPy's integers wrap around without a word; what the costs make of them does not."""

    def test_a_product_beyond_32_bits(self) -> None:
        n = np.int32(4096)
        assert costs.matmul(n, n, n, "bf16") == costs.matmul(4096, 4096, 4096, "bf16")
        assert costs.matmul(n, n, n, "bf16").flops == 2 * 4096**3

    def test_work_given_as_such(self) -> None:
        work = Work(flops=np.float32(0.5), bytes_read=np.int32(2**31 - 1), bytes_written=np.int32(2**31 - 1))
        assert work.bytes == 2**32 - 2
        assert [type(count) for count in figures(work)] == [float, int, int, int]

    @pytest.mark.parametrize(
        "cost",
        [
            lambda n: costs.elementwise(n, reads=n, writes=n, flops_per_element=n),
            lambda n: costs.linear(n, n, n, "fp32"),
            lambda n: costs.matvec(n, n, "fp32"),
            lambda n: costs.copy(n, "fp32"),
            lambda n: costs.reduction(n, "fp32", outputs=n),
            lambda n: costs.softmax(n, n, "fp32"),
            lambda n: costs.gelu(n, "fp32"),
            lambda n: costs.attention(n, n, n, n, n, "fp32", causal=True),
            lambda n: costs.attended_pairs(n, n, causal=True),
            lambda n: costs.mlp([n, n, n], n, "fp32", training=True),
            lambda n: costs.mlp_params([n, n]),
            lambda n: costs.optimizer_step(n * 1, tensors=n, fused=False),
            lambda n: costs.optimizer_step(40_000, kind="muon", shape=(n, n)),
            lambda n: costs.newton_schulz(n, n, steps=n),
            lambda n: costs.state_bytes(n, kind="adamw8bit", block=n),
            lambda n: costs.transformer_step(Transformer(n, n, n, n, n), n, n, "fp32"),
            lambda n: costs.flops_per_token(Transformer(n, n, n, n, n), n),
            lambda n: costs.allreduce(n, n, LINK, algorithm="double_tree", chunks=n).time_s,
            lambda n: costs.broadcast(n, n, LINK, algorithm="ring", chunks=n).time_s,
        ],
    )
    def test_any_cost_in_eight_bits(self, cost: Callable[[Any], Any]) -> None:
        assert cost(np.uint8(200)) == cost(200)


class TestBeyondAllFloats:
    @pytest.mark.parametrize(
        "call",
        [
            lambda: Work(flops=10**400),
            lambda: Work(flops=10**300) * 10**20,
            lambda: costs.matmul(10**400, 1, 1, "fp4"),
            lambda: costs.transformer_step(MODELS["gpt2"], 10**400, 1, "fp32"),
            lambda: costs.allreduce(10**400, 8, LINK),
            lambda: Work(bytes_read=10**308, bytes_written=10**308),
            lambda: costs.elementwise(10**400, flops_per_element=0.5),
        ],
    )
    def test_it_is_refused(self, call: Callable[[], object]) -> None:
        with pytest.raises(ValueError, match=r"^expected .* to be at most .*; found a whole number of [\d,]+ bits$"):
            call()

    def test_what_floats_can_hold_is_exact(self) -> None:
        assert Work(flops=10**300 + 1).flops == 10**300 + 1


class TestNonsenseIsRefused:
    @pytest.mark.parametrize(
        ("call", "told"),
        [
            (lambda: costs.transformer_step("gpt2", 1, 1, "fp32"), "a Transformer"),  # type: ignore[arg-type]
            (lambda: costs.transformer_forward(None, 1, 1, "fp32"), "a Transformer"),  # type: ignore[arg-type]
            (lambda: costs.transformer_params({"layers": 3}), "a Transformer"),  # type: ignore[arg-type]
            (lambda: costs.flops_per_token(3, 1), "a Transformer"),  # type: ignore[arg-type]
            (lambda: costs.mlp(3, 1, "fp32"), "the widths in a list"),  # type: ignore[arg-type]
            (lambda: costs.mlp({3, 4}, 1, "fp32"), "the widths in a list"),  # type: ignore[arg-type]
            (lambda: Work(name=3), "the name of the work"),  # type: ignore[arg-type]
            (lambda: costs.allreduce(10**300, 8, LINK, algorithm="tree"), "the number of bytes"),
            (lambda: costs.mlp_params("34"), "the widths in a list"),  # type: ignore[arg-type]
            (lambda: costs.crossover_bytes(1, 2), "two collectives"),  # type: ignore[arg-type]
            (lambda: costs.attention(1, 1, None, 1, 1, "fp32"), "queries"),  # type: ignore[arg-type]
            (lambda: costs.attention(1, 1, 1, 1, 1, "fp32", causal="x"), "causal"),  # type: ignore[arg-type]
            (lambda: costs.attention(1, 1, 1, 1, 1, "fp32", fused=math.nan), "fused"),  # type: ignore[arg-type]
            (lambda: costs.attended_pairs(1, 1, causal=0), "causal"),  # type: ignore[arg-type]
            (lambda: costs.elementwise(1, reads=None), "reads"),  # type: ignore[arg-type]
            (lambda: costs.elementwise(1, reads=1.5), "reads"),  # type: ignore[arg-type]
            (lambda: costs.elementwise(1, writes=-1), "writes"),
            (lambda: costs.elementwise(1, flops_per_element=None), "flops_per_element"),  # type: ignore[arg-type]
            (lambda: costs.linear(1, 1, 1, "fp32", bias=None), "bias"),  # type: ignore[arg-type]
            (lambda: costs.linear(1, 1, 1, "fp32", bias=1.5), "bias"),  # type: ignore[arg-type]
            (lambda: costs.linear(1, 1, 1, "fp32", bias=-1), "bias"),  # type: ignore[arg-type]
            (lambda: costs.transformer_parts(MODELS["gpt2"], 1, 1, "fp32", optimizer="x"), "an optimizer"),
            (lambda: costs.transformer_parts(MODELS["gpt2"], 1, 1, "fp32", training=2), "training"),  # type: ignore[arg-type]
            (lambda: costs.mlp([1, 1], 1, "fp32", optimizer="x"), "an optimizer"),
            (lambda: costs.optimizer_step(4, shape="x"), "shape"),  # type: ignore[arg-type]
            (lambda: costs.optimizer_step(4, fused=None), "fused"),  # type: ignore[arg-type]
            (lambda: Transformer(1, 1, 1, 1, gated="no"), "gated"),  # type: ignore[arg-type]
        ],
    )
    def test_in_one_sentence(self, call: Callable[[], object], told: str) -> None:
        with pytest.raises((TypeError, ValueError), match=rf"^expected {told}.*; found [^\n]*$"):
            call()

    def test_flags_of_numpy_are_flags(self) -> None:
        assert costs.linear(2, 3, 4, "fp32", bias=np.False_) == costs.linear(2, 3, 4, "fp32", bias=False)  # type: ignore[arg-type]
