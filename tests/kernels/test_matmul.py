"""Products of matrices against float64: odd shapes, every way to store an operand, gradients, bytes."""

import pytest

from rooflab import costs, kernels
from rooflab.counters import count
from rooflab.kernels import tuning
from rooflab.kernels.products import tiles, torch_operands, triton_matmul
from rooflab.kernels.products.torch_matmul import product
from rooflab.kernels.products.torch_products import multiply

from .agreement import DEVICE, SHORT, agree, counts, gradients, near, random, torch

SHAPES = [(1, 1, 1), (2, 3, 5), (33, 64, 100), (70, 50, 40), (64, 96, 7), (130, 17, 65), (32, 32, 32)]
INF, NAN = float("inf"), float("nan")


def right(a, b):
    return a.double() @ b.double()


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_and_gradients_agree_with_float64(shape, dtype):
    m, n, k = shape
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    agree(kernels.matmul, torch.matmul, [a, b], length=max(shape))


WAYS = {
    "rows": lambda x: x.contiguous(),
    "transposed": lambda x: x.t().contiguous().t(),
    "every other row": lambda x: x.repeat_interleave(2, 0)[::2],
    "every other column": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "a slice that begins anywhere": lambda x: torch.nn.functional.pad(x, (3, 2))[:, 3:-2],
    "expanded": lambda x: x[:1].expand(x.shape[0], -1),
}


@pytest.mark.parametrize("of_b", WAYS)
@pytest.mark.parametrize("of_a", WAYS)
def test_operands_of_any_strides(of_a, of_b):
    a, b = WAYS[of_a](random(40, 24)), WAYS[of_b](random(24, 56, seed=1))
    c = kernels.matmul(a, b)
    near(c, right(a, b), length=24)
    assert c.is_contiguous()


@pytest.mark.parametrize("columns", [64, 60, 61])
def test_only_what_the_copy_engine_cannot_follow_is_copied(columns):
    x = random(48, columns, dtype=torch.bfloat16)
    for given, transposed in ((x, False), (x.t(), True)):
        stored, found = torch_operands.as_stored(given)
        assert (stored.data_ptr() == x.data_ptr()) == (columns % 8 == 0)
        assert torch.equal(stored.t() if found else stored, given)
        assert stored.stride(0) % 8 == 0
        if columns % 8 == 0:
            assert found == transposed
    offset = random(48, 65, dtype=torch.bfloat16).flatten()[1:-64].view(47, 64 + 1)[:, :64]
    assert torch_operands.as_stored(offset)[0].data_ptr() % 16 == 0


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_products_have_no_launch(m, n, k):
    a, b = random(m, k, grad=True), random(k, n, grad=True)
    c = kernels.matmul(a, b)
    assert torch.equal(c, torch.zeros(m, n, device=DEVICE))
    c.sum().backward()
    assert (a.grad.shape, b.grad.shape) == ((m, k), (k, n))
    assert not a.grad.any()


def test_infinities_and_nan_stay_in_their_rows_and_columns():
    a, b = random(40, 33), random(33, 50, seed=1)
    a[3, 7], a[35, 0], b[5, 41] = INF, NAN, -INF
    near(kernels.matmul(a, b), right(a, b), length=33)
    zero = torch.zeros(1, 2, device=DEVICE)
    assert kernels.matmul(zero, torch.tensor([[INF], [1.0]], device=DEVICE)).isnan().all()


def test_sums_are_in_fp32():
    """In bf16 a sum of ones stands still at 256."""
    one = torch.ones(1, 1000, dtype=torch.bfloat16, device=DEVICE)
    assert kernels.matmul(one, one.t()).item() == 1000


def test_fp32_is_not_cut_to_fewer_bits():
    a = torch.full((8, 8), 1 + 2.0**-20, device=DEVICE)
    assert torch.equal(kernels.matmul(a, torch.eye(8, device=DEVICE)), a)


def test_dimensions_before_the_last_two_are_rows():
    agree(kernels.matmul, torch.matmul, [random(2, 3, 5, 8), random(8, 6, seed=1)], length=30)
    assert kernels.matmul(random(0, 3, 8), random(8, 6)).shape == (0, 3, 6)


@pytest.mark.parametrize("splits", [1, 2, 3, 7])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_into_wider_sums_by_ranges_of_k(dtype, add, splits):
    a, b = random(70, 200, dtype=dtype), random(200, 50, dtype=dtype, seed=1)
    c = torch_operands.padded_empty(70, 50, torch.float32, a.device)
    c.copy_(random(70, 50, seed=2))
    wanted = right(a, b) + (c.double() if add else 0)
    multiply(c, a, b, add=add, splits=splits)
    near(c, wanted, length=200)


def test_what_is_beside_the_result_is_left_alone():
    c = torch.full((40, 64), 7.0, device=DEVICE)
    a, b = random(33, 16), random(16, 41, seed=1)
    multiply(c[:33, :41], a, b)
    near(c[:33, :41], right(a, b), length=16)
    assert (c[33:] == 7).all()
    assert (c[:, 41:] == 7).all()


@counts
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(("m", "n", "k"), [(70, 50, 100), (64, 64, 64), (5, 130, 33)])
def test_every_tiling_computes_the_same(m, n, k, parts, splits):
    a, b = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16, seed=1)
    c = torch_operands.padded_empty(m, n, torch.bfloat16, a.device)
    tiling = {**tiles.INTERPRETED, "TILE_N": 64, "TILE_K": 16, "PARTS": parts, "GROUP": 3}
    found = count(lambda: multiply(c, a, b, splits=splits, tiling=tiling), world="triton")
    near(c, right(a, b), length=k)
    assert found.faults == ()


@counts
@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_bytes_are_those_of_the_tiles(dtype):
    m, n, k = 96, 64, 80
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype, seed=1)
    found = count(lambda: kernels.matmul(a, b), world="triton")
    least = costs.matmul(m, n, k, SHORT[dtype])
    rows, cols = m // tiles.INTERPRETED["TILE_M"], n // tiles.INTERPRETED["TILE_N"]
    # Each row of tiles of C needs all of B, and each column all of A; the cache is not counted.
    assert found.bytes_read == a.element_size() * (m * k * cols + k * n * rows)
    assert found.bytes_written == least.bytes_written
    assert found.launches == 1
    assert found.faults == ()
    steps = -(-k // tiles.INTERPRETED["TILE_K"]) * tiles.INTERPRETED["TILE_K"]
    assert least.flops <= found.flops <= least.flops * steps / k + m * n


@counts
def test_gradients_move_no_copies():
    a, b = random(64, 96, grad=True), random(96, 32, seed=1).requires_grad_()
    c = kernels.matmul(a, b)
    found = count(lambda: torch.autograd.grad(c, (a, b), torch.ones_like(c)), world="triton")
    assert (found.launches, found.faults) == (2, ())
    assert found.bytes_written == 4 * (a.numel() + b.numel())


def test_only_wanted_gradients_are_computed():
    a, b = random(40, 24, grad=True), random(24, 8, seed=1)
    (found,) = torch.autograd.grad(kernels.matmul(a, b).sum(), a)
    near(found, right(torch.ones(40, 8, device=DEVICE), b.t()), length=24)


def test_a_gradient_of_a_gradient():
    a, b = random(6, 5, grad=True), random(5, 4, seed=1).requires_grad_()
    exact = [each.detach().double().requires_grad_() for each in (a, b)]

    def twice(function, a, b):
        (first,) = torch.autograd.grad(function(a, b).square().sum(), a, create_graph=True)
        return torch.autograd.grad(first.square().sum(), (a, b))

    for one, other in zip(twice(kernels.matmul, a, b), twice(torch.matmul, *exact), strict=True):
        near(one, other, length=30)


def test_twice_the_same_product():
    a, b = random(70, 300), random(300, 40, seed=1)
    y, found = gradients(kernels.matmul, [a, b], random(70, 40, seed=2))
    again, same = gradients(kernels.matmul, [a, b], random(70, 40, seed=2))
    assert torch.equal(y, again)
    assert all(torch.equal(one, other) for one, other in zip(found, same, strict=True))


def test_under_autocast_in_its_format():
    a, b = random(8, 16, grad=True), random(16, 8, seed=1)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        c = kernels.matmul(a, b)
    assert c.dtype == torch.bfloat16
    near(c, right(a.bfloat16(), b.bfloat16()), length=16)
    c.sum().backward()
    assert a.grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.float8_e4m3fn], ids=str)
def test_autocast_makes_no_format_one_that_is_taken(dtype):
    a, told = torch.ones(8, 16, device=DEVICE).to(dtype), str(dtype).removeprefix("torch.")
    for pair in ((a, a.t()), (a.float(), a.t())):
        with torch.autocast(DEVICE, dtype=torch.bfloat16), pytest.raises(TypeError, match=f"is {told}: convert it"):
            kernels.matmul(*pair)


def test_torch_takes_it_for_an_operator():
    torch.library.opcheck(product, (random(5, 7, grad=True), random(7, 3, seed=1).requires_grad_()))
    torch.library.opcheck(product, (random(5, 8).t(), random(5, 3, dtype=torch.float32)))


def test_it_stands_in_a_compiled_graph():
    def used(a, b):
        return (kernels.matmul(2 * a, b.t()) + 1).sin()

    leaves, dy = [random(6, 8), random(5, 8, seed=1)], random(6, 5, seed=2)
    compiled = torch.compile(used, fullgraph=True, backend="aot_eager")
    y, found = gradients(compiled, leaves, dy)
    same, wanted = gradients(used, leaves, dy)
    torch.testing.assert_close(y, same)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("a", "b", "error", "says"),
    [
        ((2, 3), (4, 2), ValueError, r"expected matrices \[M, K\] and \[K, N\]; found \[2, 3\] and \[4, 2\]"),
        ((3,), (3, 2), ValueError, "found 1 and 2"),
        ((2, 3), (2, 3, 2), ValueError, "found 2 and 3"),
        ((2, 3), (3, 2, torch.int32), TypeError, "b is int32: convert it first"),
        ((2, 3), (3, 2, torch.bfloat16), ValueError, "expected two matrices of one format"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(a, b, error, says):
    *shape, dtype = b if isinstance(b[-1], torch.dtype) else (*b, torch.float32)
    with pytest.raises(error, match=says):
        kernels.matmul(torch.zeros(a), torch.zeros(*shape, dtype=dtype))


@pytest.mark.parametrize(("rows", "cols", "group"), [(4, 3, 2), (5, 7, 3), (1, 9, 8), (9, 1, 4), (7, 7, 8)])
def test_the_order_of_tiles_visits_each_once_and_keeps_near(rows, cols, group):
    order = [triton_matmul.place(tile, rows, cols, group) for tile in range(rows * cols)]
    assert sorted(order) == [(row, col) for row in range(rows) for col in range(cols)]
    for first in range(0, len(order), group * cols):  # a group of rows is finished before the next begins
        assert len({row for row, _ in order[first : first + group * cols]}) <= group


def test_tilings_are_ordered_by_what_they_leave_idle():
    first = {size: tiles.tilings(*size, "16", 132)[0] for size in ((4096, 4096), (512, 512), (64, 64))}
    assert first[4096, 4096]["TILE_N"] == 256
    assert tiles.count_tiles(512, 512, first[512, 512]) > 16
    assert first[64, 64]["TILE_M"] == 64
    assert all(tiles.tilings(8, 8, kind, 132) for kind in tiles.TILINGS)
    # What would leave most of a tile or of the chip unused is not tried.
    assert not any(each["TILE_M"] > 64 for each in tiles.tilings(64, 64, "16", 132))


@pytest.mark.parametrize("kind", [kind for kind in tiles.TILINGS if "plain" not in kind])
def test_as_many_programs_of_a_tiling_as_it_says_fit_into_shared_memory(kind):
    size = {"32": 4, "16": 2}.get(kind, 1)
    for tiling, _ in tiles.TILINGS[kind]:
        m, n, k = (tiling[f"TILE_{axis}"] for axis in "MNK")
        taken = size * k * (m + n) * tiling["STAGES"] + max(2, size) * m * n // tiling["PARTS"]
        assert (taken + 2048) * tiling["PER_SM"] <= 228 * 1024, tiling


@pytest.mark.parametrize(
    ("kernel", "kind"), [("matmul_16", "16"), ("matmul_16_wide", "16"), ("logits_16", "16"), ("scaled_matmul_8", "8")]
)
def test_what_was_fastest_on_a_chip_can_be_chosen(kernel, kind):
    for (m, n, _), choice in tuning.known_choices("NVIDIA H200", kernel).items():
        assert choice in tiles.tilings(m, n, kind, 132)
