"""Softmax, RMS norm and layer norm against float64, over odd shapes, strides, formats and values."""

import pytest

from rooflab import costs, kernels
from rooflab.counters import count

from .agreement import DEVICE, SHORT, agree, counts, near, random, row_functions, torch

SHAPES = [(1, 1), (3, 5), (7, 64), (2, 3, 33), (5, 100), (1, 1000), (9, 129), (37, 17), (4,)]
DTYPES = list(SHORT)
ROWS_OPS = ["softmax", "rms_norm", "layer_norm"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS_OPS)
def test_results_and_gradients_agree_with_float64(name, shape, dtype):
    mine, reference, parameters = row_functions(name, shape[-1], dtype)
    rows = max(1, int(torch.Size(shape[:-1]).numel()))
    agree(mine, reference, [random(*shape, dtype=dtype), *parameters], length=max(shape[-1], rows))


@pytest.mark.parametrize("name", ROWS_OPS)
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t(),
        lambda x: x[::2],
        lambda x: x[:, 3:20],
        lambda x: x[:, ::3],
        lambda x: x[:1].expand(6, -1),
        lambda x: x.view(4, 6, 24).transpose(0, 1),
        lambda x: x.flip(0)[1:],
    ],
    ids=["transposed", "every other row", "a slice", "every third column", "expanded", "permuted", "offset"],
)
def test_strides_of_any_kind(name, change):
    x = change(random(24, 24))
    mine, reference, parameters = row_functions(name, x.shape[-1])
    agree(mine, reference, [x, *parameters], length=24)
    y = mine(x, *parameters)
    assert y.is_contiguous()


@pytest.mark.parametrize("name", ROWS_OPS)
def test_a_gradient_of_any_strides(name):
    mine, reference, parameters = row_functions(name, 10)
    weights = random(10, 6, seed=3)
    for change in (lambda y: y.t() * weights, lambda y: y.sum(0), lambda y: y.sum(1), lambda y: y[::2, ::2]):
        agree(
            lambda x, *p, change=change: change(mine(x, *p)),
            lambda x, *p, change=change: change(reference(x, *p)),
            [random(6, 10), *parameters],
            length=10,
        )


@pytest.mark.parametrize("name", ROWS_OPS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0,), (2, 0, 4)], ids=str)
def test_what_is_empty_stays_empty(name, shape):
    mine, _, parameters = row_functions(name, shape[-1])
    x = torch.zeros(shape, device=DEVICE, requires_grad=True)
    y = mine(x, *parameters)
    assert y.shape == shape
    y.sum().backward()
    assert x.grad.shape == shape


def test_infinities_and_nan_in_softmax_are_those_of_torch():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor(
        [[0.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [nan, 0.0, 1.0], [3e38, -3e38, 3e38]], device=DEVICE
    )
    near(kernels.softmax(x), x.double().softmax(-1), length=3)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_nan_stays_in_its_row(name):
    x = random(3, 8)
    x[1, 2] = float("nan")
    mine, reference, parameters = row_functions(name, 8)
    near(mine(x, *parameters), reference(x.double(), *[each.double() for each in parameters]), length=8)


@pytest.mark.parametrize("name", ROWS_OPS)
def test_large_numbers_do_not_overflow(name):
    x = random(4, 50, scale=1e4, dtype=torch.float16)
    mine, reference, parameters = row_functions(name, 50, torch.float16)
    agree(mine, reference, [x, *parameters], length=50)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["an outlier first", "far from zero", "all the same", "one that is not"])
def test_variances_that_could_cancel(kind, dtype):
    x = random(3, 1000, dtype=dtype)
    if kind == "an outlier first":
        x[:, 0] = 1000.0
    elif kind == "far from zero":
        x = (x.float() * 8 + 1000).to(dtype)
    else:
        x[:] = 1.5
        x[:, 700] += 0.0 if kind == "all the same" else 1.0
    weight, bias = random(1000, dtype=dtype, seed=1), random(1000, dtype=dtype, seed=2)
    right = torch.nn.functional.layer_norm(x.double(), (1000,), weight.double(), bias.double())
    near(kernels.layer_norm(x, weight, bias), right, length=1000)
    y, _ = kernels.add_layer_norm(x, torch.zeros_like(x), weight, bias)
    near(y, right, length=1000)


def test_parameters_may_be_more_exact_than_the_rows():
    x, weight = random(5, 16, dtype=torch.bfloat16, grad=True), random(16, seed=1).requires_grad_()
    y = kernels.rms_norm(x, weight)
    y.float().sum().backward()
    assert (y.dtype, x.grad.dtype, weight.grad.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


def test_layer_norm_without_a_bias():
    x, weight = random(5, 16), random(16, seed=1)
    agree(
        lambda x, w: kernels.layer_norm(x, w, None),
        lambda x, w: torch.nn.functional.layer_norm(x, (16,), w),
        [x, weight],
        length=16,
    )


ADDED = {
    "rms": (
        kernels.add_rms_norm,
        lambda x, r, w: (torch.nn.functional.rms_norm(x + r, x.shape[-1:], w, 1e-6), x + r),
    ),
    "layer": (
        kernels.add_layer_norm,
        lambda x, r, w, b: (torch.nn.functional.layer_norm(x + r, x.shape[-1:], w, b, 1e-5), x + r),
    ),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("used", ["both", "the rows", "the sum"])
@pytest.mark.parametrize("kind", ADDED)
def test_a_residual_is_added_in_the_same_pass(kind, used, dtype):
    mine, reference = ADDED[kind]
    pick = {"both": lambda y, h: y * h, "the rows": lambda y, h: y, "the sum": lambda y, h: h}[used]
    given = [random(5, 40, dtype=dtype), random(5, 40, dtype=dtype, seed=1)]
    parameters = [random(40, dtype=dtype, seed=2 + number) for number in range(1 + (kind == "layer"))]
    y, h = mine(*given, *parameters)
    right, total = reference(*[each.double() for each in (*given, *parameters)])
    assert torch.equal(h, given[0] + given[1])
    near(y, right, length=40)
    near(h, total, length=1)
    alone = {"rms": kernels.rms_norm, "layer": kernels.layer_norm}[kind](h, *parameters)
    assert torch.equal(y, alone), "what is normalized is the sum as it is kept"
    leaves = [each.clone().requires_grad_() for each in (*given, *parameters)]
    exact = [each.double().requires_grad_() for each in (*given, *parameters)]
    ours, theirs = pick(*mine(*leaves)), pick(*reference(*exact))
    found = torch.autograd.grad(ours, leaves, torch.ones_like(ours), allow_unused=True)
    right = torch.autograd.grad(theirs, exact, torch.ones_like(theirs), allow_unused=True)
    for one, other in zip(found, right, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            near(one, other, length=40, terms=float(right[0].abs().max()) + 1.0)


@counts
def test_the_sum_costs_what_it_moves_and_no_pass():
    x, r, w = random(12, 96), random(12, 96, seed=1), random(96, seed=2)
    found = count(lambda: kernels.add_rms_norm(x, r, w), world="triton")
    assert (found.launches, found.faults) == (1, ())
    assert found.bytes_written == 4 * (2 * 12 * 96 + 12)
    assert found.bytes_read <= 4 * (2 * 12 * 96 + 12 * 96)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_of_parameters_are_the_same_each_time(name):
    mine, _, parameters = row_functions(name, 33)
    x = random(300, 33, scale=100.0)
    dy = random(300, 33, seed=5)
    leaves = [each.clone().requires_grad_() for each in (x, *parameters)]
    first, second = (torch.autograd.grad(mine(*leaves), leaves, dy) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ROWS_OPS)
def test_torch_takes_them_for_operators(name):
    from rooflab.kernels.rows import torch_norm, torch_softmax

    x = random(3, 20, grad=True)
    _, _, parameters = row_functions(name, 20)
    if name == "softmax":
        torch.library.opcheck(torch_softmax.softmax, (x,))
        return
    weight, bias = parameters[0].requires_grad_(), parameters[1].requires_grad_() if len(parameters) > 1 else None
    torch.library.opcheck(torch_norm.norm, (x, None, weight, bias, 1e-5, name == "layer_norm"))
    torch.library.opcheck(torch_norm.norm, (x, x.detach().clone(), weight, bias, 1e-5, name == "layer_norm"))


@pytest.mark.parametrize("name", ROWS_OPS)
def test_they_stand_in_a_compiled_graph(name):
    x = random(6, 20)
    mine, _, parameters = row_functions(name, 20)

    def used(x, *parameters):
        return (mine(2 * x, *parameters) + 1).sin()

    compiled = torch.compile(used, fullgraph=True, backend="aot_eager")
    dy = random(6, 20, seed=4)
    leaves = [each.clone().requires_grad_() for each in (x, *parameters)]
    for one, other in zip(
        torch.autograd.grad(compiled(*leaves), leaves, dy), torch.autograd.grad(used(*leaves), leaves, dy), strict=True
    ):
        torch.testing.assert_close(one, other)


@counts
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ROWS_OPS)
def test_no_byte_is_moved_in_vain(name, dtype):
    rows, cols = 12, 96
    x = random(rows, cols, dtype=dtype)
    mine, _, parameters = row_functions(name, cols, dtype)
    found = count(lambda: mine(x, *parameters), world="triton")
    least = getattr(costs, name)(rows, cols, SHORT[dtype])
    assert found.faults == ()
    kept = 4 * rows * {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[name]  # for the backward pass
    again = least.bytes_read - rows * cols * x.element_size()  # parameters are read by each program
    assert least.bytes <= found.bytes <= least.bytes + kept + again * rows
    assert found.bytes_written == least.bytes_written + kept


@counts
@pytest.mark.parametrize("name", ROWS_OPS)
def test_the_gradient_has_no_fault(name):
    mine, _, parameters = row_functions(name, 37)
    leaves = [each.requires_grad_() for each in (random(11, 37), *parameters)]
    y = mine(*leaves)
    found = count(lambda: torch.autograd.grad(y, leaves, torch.ones_like(y)), world="triton")
    assert found.faults == ()
    assert found.launches == {"softmax": 1, "rms_norm": 2, "layer_norm": 2}[name]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: kernels.softmax(torch.zeros(2, 3, dtype=torch.int64)), TypeError, "x is int64: convert it first"),
        (lambda: kernels.softmax(torch.zeros(2, 3, dtype=torch.float64)), TypeError, "x is float64"),
        (lambda: kernels.softmax(torch.tensor(1.0)), ValueError, r"give it one with x\[None\]"),
        (lambda: kernels.softmax([1.0, 2.0]), TypeError, "takes a tensor of PyTorch or an array of JAX; found a list"),
        (lambda: kernels.softmax(torch.zeros(1, 70_000)), ValueError, "at most 65,536 elements; found 70,000"),
        (lambda: kernels.rms_norm(torch.zeros(2, 3), torch.zeros(4)), ValueError, r"weight of shape \(3,\)"),
        (lambda: kernels.rms_norm(torch.zeros(2, 3), torch.zeros(6)[::2]), ValueError, "contiguous"),
        (lambda: kernels.layer_norm(torch.zeros(2, 3), torch.zeros(3), torch.zeros(1, 3)), ValueError, "bias of shape"),
        (lambda: kernels.rms_norm(torch.zeros(2, 3), torch.zeros(3, dtype=torch.int8)), TypeError, "weight is int8"),
        (
            lambda: kernels.add_rms_norm(torch.zeros(2, 3), torch.zeros(3, 3), torch.zeros(3)),
            ValueError,
            r"a residual of the shape and format of x, \(2, 3\) in torch.float32; found \(3, 3\)",
        ),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()
