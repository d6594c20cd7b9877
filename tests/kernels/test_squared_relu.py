"""Products with a squared ReLU in them against float64, forward and backward, in formats of 16 bits and in fp8."""

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels.products import tiles
from rooflab.kernels.products import torch_squared_relu as operators

from .agreement import DEVICE, SHORT, counts, near, random, torch

SHAPES = [(1, 1, 1, 1), (5, 3, 7, 2), (33, 64, 40, 24), (70, 48, 96, 40), (64, 32, 64, 32)]
INF, NAN = float("inf"), float("nan")
FP8 = torch.float8_e4m3fn


def right(x, up, down):
    return (x @ up.t()).relu().square() @ down.t()


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_and_gradients_agree_with_float64(shape, dtype):
    m, k, n, d = shape
    given = [random(m, k, dtype=dtype), random(n, k, dtype=dtype, seed=1), random(d, n, dtype=dtype, seed=2)]
    given = [(each * 0.3).requires_grad_() for each in given]
    exact = [each.detach().double().requires_grad_() for each in given]
    y, wanted = kernels.squared_relu_mlp(*given), right(*exact)
    near(y, wanted, length=n, terms=float((exact[0] @ exact[1].t()).detach().square().max()))
    dy = random(m, d, dtype=dtype, seed=3)
    mine, others = torch.autograd.grad(y, given, dy), torch.autograd.grad(wanted, exact, dy.double())
    for one, other in zip(mine, others, strict=True):
        assert one.dtype == dtype
        near(one, other, length=max(shape), terms=4 * float(other.abs().max()) + 1)


def test_the_square_is_rounded_once_and_its_root_is_the_gradient():
    x = torch.tensor([[1.0, 2.0**-7]], dtype=torch.bfloat16, device=DEVICE)
    one = torch.tensor([[1.0, 1.0]], dtype=torch.bfloat16, device=DEVICE)
    a = operators.product(x, one)  # (1 + 2^-7)^2; with h rounded first it would be the same, with x^2 it would not
    assert a.item() == 1 + 2.0**-6
    assert operators.gradient(one[:, :1], one[:1, :1], a).item() == torch.tensor(2 * (1 + 2.0**-6) ** 0.5).bfloat16()


def test_three_dimensions_and_operands_of_any_strides():
    x, up, down = random(2, 9, 40), random(24, 40, seed=1) * 0.2, random(16, 24, seed=2)
    for each in (up, up.t().contiguous().t(), up.repeat_interleave(2, 0)[::2], torch.cat((up, up), 1)[:, 3:43]):
        y = kernels.squared_relu_mlp(x, each, down)
        near(y, right(x.double(), each.double(), down.double()), length=40, terms=50.0)
    dy, a = random(18, 16), random(18, 24, seed=4).square()
    near(operators.gradient(dy.t().contiguous().t(), down.t().contiguous().t(), a),
         2 * a.double().sqrt() * (dy.double() @ down.double()), length=16)  # fmt: skip


def test_what_is_not_finite_stays():
    x = torch.tensor([[NAN, 1.0], [INF, 1.0], [-INF, 1.0], [2.0, 1.0]], device=DEVICE)
    up = torch.ones(3, 2, device=DEVICE)
    assert torch.equal(operators.product(x, up)[[1, 2, 3], 0], torch.tensor([INF, 0.0, 9.0], device=DEVICE))
    assert operators.product(x, up)[0].isnan().all()
    codes = operators.product_in_codes(
        torch.tensor([[NAN] * 16, [400.0] * 16], device=DEVICE).to(FP8), torch.ones(16, 16, device=DEVICE).to(FP8),
        *(torch.tensor(1.0, device=DEVICE) for _ in range(3)),
    )[1].float()  # fmt: skip
    assert codes[0].isnan().all()
    assert (codes[1] == 448).all()  # 6,400^2 is beyond the format


@pytest.mark.parametrize("shape", [(1, 16, 16), (70, 48, 96), (33, 80, 64)], ids=str)
def test_codes_are_those_of_the_square(shape):
    m, k, n = shape
    x, w = random(m, k).to(FP8), (random(n, k, seed=1)).to(FP8)
    scales = [torch.tensor(each, device=DEVICE) for each in (0.5, 0.25, 0.125)]
    wanted = (x.double() @ w.double().t() * 0.125).relu().square()
    a, codes = operators.product_in_codes(x, w, *scales)
    assert a.dtype == torch.bfloat16
    near(a, wanted, length=k, terms=float(wanted.max()))
    assert codes.dtype == FP8
    inside = wanted < 448 * 0.125
    found = codes.double() * 0.125
    # Half of the last of three bits, or half of the smallest number.
    assert ((found - wanted).abs() <= wanted * 2.0**-4 + 0.125 * 2.0**-10 + 1e-5)[inside].all()
    assert (found[~inside] == 448 * 0.125).all()


@counts
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_every_tiling_computes_the_same_and_touches_what_it_may(parts, monkeypatch):
    monkeypatch.setattr(operators, "INTERPRETED", {**tiles.INTERPRETED, "TILE_N": 64, "TILE_K": 16, "PARTS": parts})
    x, w, v = (random(*shape, dtype=torch.bfloat16, seed=i) for i, shape in enumerate([(70, 40), (48, 40), (40, 48)]))
    wanted = (x.double() @ w.double().t()).relu().square()
    near(operators.product(x, w), wanted, length=40)
    a = wanted.bfloat16()
    found = count(lambda: operators.gradient(x, v, a), world="triton")
    assert found.faults == ()
    near(operators.gradient(x, v, a), 2 * a.double().sqrt() * (x.double() @ v.double()), length=40, terms=100)
    # dy for each column of tiles, v for each row of them, a once.
    assert found.bytes_read == 2 * (70 * 40 * 1 + 40 * 48 * 3 + 70 * 48)
    assert found.bytes_written == 2 * 70 * 48


def test_the_operators_as_torch_wants_them():
    x, up, down = (random(*shape, grad=True, seed=i) for i, shape in enumerate([(3, 8), (16, 8), (4, 16)]))
    torch.library.opcheck(operators.mlp, (x, up, down))
    torch.library.opcheck(operators.product, (x.detach(), up.detach()))
    torch.library.opcheck(operators.gradient, (random(3, 4), down.detach(), random(3, 16).square()))
    eights = [random(4, 16).to(FP8), random(32, 16).to(FP8), *(torch.tensor(1.0, device=DEVICE) for _ in range(3))]
    torch.library.opcheck(operators.product_in_codes, eights, test_utils="test_faketensor")
    whole = torch.compile(kernels.squared_relu_mlp, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(whole(x, up, down).sum(), (x, up, down))
    wanted = torch.autograd.grad(right(x, up, down).sum(), (x, up, down))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 4, 5, 3), (2, 0, 5, 3), (2, 4, 0, 3), (2, 4, 5, 0)], ids=str)
def test_what_is_empty(shape):
    m, k, n, d = shape
    given = [random(m, k, grad=True), random(n, k, grad=True), random(d, n, grad=True)]
    y = kernels.squared_relu_mlp(*given)
    assert torch.equal(y, torch.zeros(m, d, device=DEVICE))
    y.sum().backward()
    assert [each.grad.shape for each in given] == [(m, k), (n, k), (d, n)]


def test_bad_input():
    one = torch.ones(4, 4, device=DEVICE)
    with pytest.raises(ValueError, match=r"expected x \[\.\.\., K\], up \[N, K\] and down \[d, N\]"):
        kernels.squared_relu_mlp(one, one[:, :3], one)
    with pytest.raises(ValueError, match=r"found x in torch\.float32, w in torch\.bfloat16"):
        kernels.squared_relu_mlp(one, one.bfloat16(), one)
    with pytest.raises(ValueError, match=r"expected codes in float8_e4m3fn; found torch\.float32"):
        operators.product_in_codes(one, one, one[0, 0], one[0, 0], one[0, 0])
    with pytest.raises(ValueError, match="multiples of 16; found"):
        operators.product_in_codes(one.to(FP8), one.to(FP8), one[0, 0], one[0, 0], one[0, 0])
