"""GELU and SwiGLU against float64, over odd shapes, strides, formats and values."""

import pytest

from rooflab import costs, kernels
from rooflab.counters import count

from .agreement import DEVICE, SHORT, agree, counts, near, random, torch

functional = torch.nn.functional
FUNCTIONS = {
    "gelu": (kernels.gelu, functional.gelu, 1),
    "gelu_tanh": (lambda x: kernels.gelu(x, "tanh"), lambda x: functional.gelu(x, approximate="tanh"), 1),
    "swiglu": (kernels.swiglu, lambda g, u: functional.silu(g) * u, 2),
}


@pytest.fixture(params=FUNCTIONS)
def function(request):
    return FUNCTIONS[request.param]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 33), (4100,), (5, 1025)], ids=str)
def test_results_and_gradients_agree_with_float64(function, shape, dtype):
    mine, reference, inputs = function
    agree(mine, reference, [random(*shape, dtype=dtype, seed=seed, scale=3) for seed in range(inputs)], length=1)


@pytest.mark.parametrize(
    "change",
    [lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 3:20], lambda x: x[:, ::3], lambda x: x[:1].expand(6, -1)],
    ids=["transposed", "every other row", "a slice", "every third column", "expanded"],
)
def test_strides_of_any_kind(function, change):
    mine, reference, inputs = function
    agree(mine, reference, [change(random(24, 24, seed=seed)) for seed in range(inputs)], length=1)


def test_two_halves_of_one_row():
    h = random(7, 50, grad=True)
    gate, up = h.chunk(2, -1)
    assert not gate.is_contiguous()
    y = kernels.swiglu(gate, up)
    (found,) = torch.autograd.grad(y.sin().sum(), h)
    h64 = h.detach().double().requires_grad_()
    gate, up = h64.chunk(2, -1)
    right = functional.silu(gate) * up
    near(y, right, length=1)
    near(found, torch.autograd.grad(right.sin().sum(), h64)[0], length=1)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)], ids=str)
def test_what_is_empty_stays_empty(function, shape):
    mine, _, inputs = function
    given = [torch.zeros(shape, device=DEVICE, requires_grad=True) for _ in range(inputs)]
    y = mine(*given)
    y.sum().backward()
    assert y.shape == given[0].grad.shape == shape


def test_special_values(function):
    mine, reference, inputs = function
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, nan, inf, 3e38, -3e38, 1e-40], device=DEVICE)
    near(
        mine(*[x, torch.ones_like(x)][:inputs]),
        reference(*[x.double(), torch.ones_like(x).double()][:inputs]),
        length=1,
    )


def test_a_gate_that_is_shut_far_below_zero_leaves_no_nan():
    gate, up = (torch.full((3,), value, device=DEVICE, requires_grad=True) for value in (-3e38, 1.0))
    dgate, dup = torch.autograd.grad(kernels.swiglu(gate, up), (gate, up), torch.full_like(gate, 2.0))
    assert not dgate.any()
    assert not dup.any()


def test_minus_infinity_in_gelu_gives_the_limit():
    assert kernels.gelu(torch.tensor([-float("inf")], device=DEVICE)).item() == 0.0  # where torch gives NaN


def test_every_number_of_bf16():
    """All 65,536 of them: no range was forgotten."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16).to(DEVICE)
    x = x[x.isfinite()]
    for mine, reference, inputs in FUNCTIONS.values():
        if inputs == 1:
            found, right = mine(x).double(), reference(x.double())
            assert bool(((found - right).abs() <= 2**-8 * right.abs() + 1e-6).all())


@pytest.mark.parametrize(("dtype", "wrong"), [(torch.bfloat16, 1e-4), (torch.float16, 5e-3)], ids=str)
def test_exact_gelu_of_16_bits_is_nearly_always_rounded_once(dtype, wrong):
    """Also where it is small: in bf16 down to 1e-11, and a polynomial that is short of that is seen here."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    x = x[(x > -7) & x.isfinite()]
    right = x.double() * torch.special.ndtr(x.double())
    found = kernels.gelu(x.to(DEVICE)).cpu()
    assert float((found != right.to(dtype)).double().mean()) < wrong
    step = torch.finfo(dtype).eps * right.abs().clamp(min=torch.finfo(dtype).tiny)
    assert bool(((found.double() - right).abs() <= 0.6 * step).all())


def test_torch_takes_them_for_operators():
    from rooflab.kernels.pointwise import torch_pointwise

    x, y = random(3, 20, grad=True), random(3, 20, grad=True, seed=1)
    torch.library.opcheck(torch_pointwise.gelu_forward, (x, False))
    torch.library.opcheck(torch_pointwise.swiglu, (x, y))


def test_they_stand_in_a_compiled_graph(function):
    mine, _, inputs = function
    given = [random(6, 20, grad=True, seed=seed) for seed in range(inputs)]

    def used(*given):
        return mine(*[2 * each for each in given]).sin().sum()

    compiled = torch.compile(used, fullgraph=True, backend="aot_eager")
    for one, other in zip(
        torch.autograd.grad(compiled(*given), given), torch.autograd.grad(used(*given), given), strict=True
    ):
        torch.testing.assert_close(one, other)


@counts
@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_no_byte_is_moved_in_vain(function, dtype):
    mine, _, inputs = function
    given = [random(5, 96, dtype=dtype, grad=True, seed=seed) for seed in range(inputs)]
    least = costs.elementwise(5 * 96, reads=inputs, dtype=SHORT[dtype])
    found = count(lambda: mine(*given), world="triton")
    assert (found.bytes_read, found.bytes_written) == (least.bytes_read, least.bytes_written)
    assert (found.faults, found.launches) == ((), 1)
    y = mine(*given)
    found = count(lambda: torch.autograd.grad(y, given, torch.ones_like(y)), world="triton")
    assert found.bytes == (2 * inputs + 1) * 5 * 96 * y.element_size()
    assert (found.faults, found.launches) == ((), 1)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: kernels.gelu(torch.zeros(2, dtype=torch.int32)), TypeError, "x is int32: convert it first"),
        (lambda: kernels.gelu(torch.zeros(2), "sigmoid"), ValueError, "expected form 'erf' or 'tanh'; found 'sigmoid'"),
        (lambda: kernels.gelu(2.0), TypeError, "found a float"),
        (lambda: kernels.swiglu(torch.zeros(2), torch.zeros(3)), ValueError, r"one shape; found \(2,\), \(3,\)"),
        (lambda: kernels.swiglu(torch.zeros(2), torch.zeros(2).long()), TypeError, "up is int64"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()
