"""Products of fp8 matrices with scales against float64: one scale, one for each row, one for each block."""

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels.products.tiles import INTERPRETED
from rooflab.kernels.products.torch_scaled_matmul import scaled_product, scaling

from .agreement import DEVICE, counts, near, random, torch

FP8 = torch.float8_e4m3fn
SHAPES = [(1, 1, 1), (5, 3, 17), (33, 140, 300), (70, 50, 40), (64, 96, 128), (32, 32, 256)]
KINDS = ["tensor", "row", "block"]


def blocks(n):
    return -(-n // 128)


def scales(kind, m, n, k, seed=7):
    """Scales of a kind, positive and unlike."""

    def some(*shape, seed):
        return random(*shape, seed=seed).abs() + 0.5

    if kind == "tensor":
        return some(1, seed=seed).squeeze(), some(1, seed=seed + 1)
    if kind == "row":
        return some(m, 1, seed=seed), some(1, n, seed=seed + 1)
    return some(m, blocks(k), seed=seed), some(blocks(k), blocks(n), seed=seed + 1)


def matrices(m, n, k):
    return random(m, k).to(FP8), random(n, k, seed=1).to(FP8).t()


def right(a, b, a_scale, b_scale, kind):
    (m, k), n = a.shape, b.shape[1]
    a, b, a_scale, b_scale = (each.double() for each in (a, b, a_scale, b_scale))
    if kind == "block":
        a_scale = a_scale.repeat_interleave(128, 1)[:, :k]
        b_scale = b_scale.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
    elif kind == "row":
        a_scale, b_scale = a_scale.reshape(m, 1), b_scale.reshape(1, n)
    return (a * a_scale) @ (b * b_scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_agree_with_float64(shape, kind, dtype):
    a, b = matrices(*shape)
    given = scales(kind, *shape)
    for exact in (True, False) if DEVICE == "cpu" else (True,):
        c = kernels.scaled_matmul(a, b, *given, dtype=dtype, exact=exact)
        assert (c.dtype, c.is_contiguous()) == (dtype, True)
        # On a GPU the 128 terms that are added up before fp32 have some 14 bits.
        format_of_sums = torch.float16 if DEVICE == "cuda" and dtype == torch.float32 else dtype
        near(c, right(a, b, *given, kind), length=shape[2], dtype=format_of_sums)


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter adds fp8 products in fp32")
@pytest.mark.parametrize("kind", ["tensor", "row"])
def test_sums_of_few_bits_are_near(kind):
    """Hopper keeps about 14 bits of a sum: each product of the largest size may lose 2^-13 of it."""
    a, b = matrices(256, 256, 4096)
    given = scales(kind, 256, 256, 4096)
    found, wanted = kernels.scaled_matmul(a, b, *given, exact=False).double(), right(a, b, *given, kind)
    assert (found - wanted).abs().max() < 2**-5 * wanted.abs().max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: x.contiguous(),
        lambda x: torch.cat([x, x], 1)[:, ::2].contiguous(),
        lambda x: x[:, 1:],
    ],
    ids=["transposed", "rows", "other values", "offset"],
)
def test_operands_and_scales_of_any_strides(kind, change):
    a, b = change(random(40, 208)).to(FP8), change(random(48, 208, seed=1)).to(FP8)
    a, b = change(a.float()).to(FP8), b.t().contiguous()
    b = torch.cat([b, b.new_zeros(max(0, a.shape[1] - b.shape[0]), 48)])[: a.shape[1]]
    given = [each.t().contiguous().t() if each.ndim == 2 else each for each in scales(kind, 40, 48, a.shape[1])]
    near(kernels.scaled_matmul(a, b, *given), right(a, b, *given, kind), length=208)


def test_scales_of_blocks_are_where_they_belong():
    """One term in each block, and powers of two: an exact result says which scales it was made of."""
    a, b = torch.zeros(130, 384), torch.zeros(384, 260)
    a[:, [0, 200, 383]] = 1
    b[[0, 200, 383]] = 1
    a_scale = 2.0 ** torch.arange(3) * torch.ones(130, 1)
    a_scale[129] = 0.5
    b_scale = torch.tensor([[1.0, 2, 4], [8, 16, 32], [64, 128, 256]])
    a, b, a_scale, b_scale = (each.to(DEVICE) for each in (a, b, a_scale, b_scale))
    c = kernels.scaled_matmul(a.to(FP8), b.to(FP8), a_scale, b_scale, dtype=torch.float32)
    assert torch.equal(c.double(), right(a, b, a_scale, b_scale, "block"))
    assert c[0, [0, 127, 128, 256]].tolist() == [273, 273, 546, 1092]
    assert c[129, 0] == 36.5


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty_products_have_no_launch(m, n, k):
    a, b = torch.zeros(m, k, dtype=FP8, device=DEVICE), torch.zeros(k, n, dtype=FP8, device=DEVICE)
    c = kernels.scaled_matmul(a, b, *scales("tensor", m, n, k))
    assert torch.equal(c, torch.zeros(m, n, dtype=torch.bfloat16, device=DEVICE))


def test_nan_stays_in_its_row_and_scales_may_be_infinite():
    a, b = matrices(40, 33, 64)
    a = a.float()
    a[3, 7] = float("nan")
    a = a.to(FP8)
    a_scale, b_scale = scales("row", 40, 33, 64)
    a_scale[5] = float("inf")
    c = kernels.scaled_matmul(a, b, a_scale, b_scale)
    near(c, (a.double() @ b.double()) * a_scale * b_scale, length=64)
    assert c[3].isnan().all()
    assert c[5].isinf().all()


@counts
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_those_of_the_tiles(kind):
    m, n, k = 96, 64, 256
    a, b = matrices(m, n, k)
    given = scales(kind, m, n, k)
    found = count(lambda: kernels.scaled_matmul(a, b, *given), world="triton")
    rows, cols = m // INTERPRETED["TILE_M"], n // INTERPRETED["TILE_N"]
    tiles = rows * cols
    of_scales = {
        "tensor": 8 * tiles,
        "row": 4 * (m * cols + n * rows),
        "block": 4 * (m * blocks(k) * cols + blocks(k) * tiles),
    }
    assert found.bytes_read == m * k * cols + k * n * rows + of_scales[kind]
    assert (found.bytes_written, found.launches, found.faults) == (2 * m * n, 1, ())
    assert found.dtype == "fp8"


def test_what_scales_are_for_is_told_by_their_shapes():
    a, b = matrices(6, 300, 300)
    assert [scaling(a, b, *scales(kind, 6, 300, 300)) for kind in KINDS] == KINDS
    assert scaling(a, b, torch.ones(6), torch.ones(300)) == "row"


@pytest.mark.parametrize("kind", KINDS)
def test_torch_takes_it_for_an_operator(kind):
    a, b = matrices(20, 30, 150)
    given = (a, b, *scales(kind, 20, 30, 150), torch.bfloat16, True)
    # Its first check compares the operands before and after, and torch on a CPU cannot compare fp8.
    torch.library.opcheck(scaled_product, given, test_utils=("test_faketensor", "test_autograd_registration"))
    before = [each.clone() for each in given[:2]]
    scaled_product(*given)
    assert all(torch.equal(one.float(), other.float()) for one, other in zip(given[:2], before, strict=True))


def test_it_stands_in_a_compiled_graph():
    a, b = matrices(20, 30, 48)
    given = scales("row", 20, 30, 48)

    def used(a, b, *given):
        return kernels.scaled_matmul(a, b.t(), *given).float().sin()

    compiled = torch.compile(used, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a, b.t(), *given), used(a, b.t(), *given))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"a": torch.zeros(4, 8)}, "expected matrices in float8_e4m3fn; found torch.float32"),
        ({"b": torch.zeros(8, 6).to(torch.float8_e5m2)}, "found torch.float8_e4m3fn and torch.float8_e5m2"),
        ({"a_scale": torch.ones(4, dtype=torch.float64)}, "expected scales in float32; found torch.float64"),
        ({"a_scale": torch.ones(5)}, r"found \[5\] and \[6\]"),
        ({"b_scale": torch.ones(1)}, r"found \[4\] and \[1\]"),
        ({"dtype": torch.int8}, "its result is in bfloat16, float16 or float32; found torch.int8"),
        ({"b": torch.zeros(9, 6).to(FP8)}, r"expected matrices \[M, K\] and \[K, N\]; found \[4, 8\] and \[9, 6\]"),
    ],
    ids=str,
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(change, says):
    given = {
        "a": torch.zeros(4, 8).to(FP8),
        "b": torch.zeros(8, 6).to(FP8),
        "a_scale": torch.ones(4),
        "b_scale": torch.ones(6),
    }
    with pytest.raises(ValueError, match=says):
        kernels.scaled_matmul(**(given | change))
