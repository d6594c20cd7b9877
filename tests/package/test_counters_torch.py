import concurrent.futures
import dataclasses
import math
import multiprocessing.pool
import queue
import threading

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from rooflab import costs
from rooflab.counters import Counted, count
from rooflab.counters.torch_bytes import count_bytes
from rooflab.counters.torch_ops import COMPILED_SENTENCE

X = torch.randn(64, 128)


def same(counted: Counted, work: costs.Work) -> bool:
    keys = ("flops", "bytes_read", "bytes_written", "launches", "dtype")
    found, expected = ({key: getattr(w, key) for key in keys} for w in (counted, work))
    assert found == expected
    return True


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_counts_agree_with_costs(dtype):
    name = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float64: "fp64"}[dtype]
    x, w = X.to(dtype), torch.randn(128, 32, dtype=dtype)
    n = x.numel()
    assert same(count(torch.matmul, x, w), costs.matmul(64, 32, 128, name))
    assert same(count(torch.mv, x, w[:, 0].contiguous()), costs.matvec(64, 128, name))
    assert same(count(torch.softmax, x, -1), costs.softmax(64, 128, name))
    assert same(count(F.gelu, x), costs.gelu(n, name))
    assert same(count(lambda: F.gelu(x, approximate="tanh")), costs.gelu(n, name, form="tanh"))
    assert same(count(torch.sum, x), costs.reduction(n, name))
    assert same(count(torch.sum, x, 1), costs.reduction(n, name, outputs=64))
    assert same(count(torch.exp, x), costs.elementwise(n, dtype=name))
    assert same(count(torch.add, x, x.clone()), costs.elementwise(n, reads=2, dtype=name))
    assert same(count(torch.clone, x), costs.copy(n, name))
    y = torch.zeros_like(x)
    assert same(count(lambda: y.add_(x, alpha=2.0)), costs.axpy(n, name))


def test_batched_matmul_agrees_with_costs():
    a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    assert same(count(torch.bmm, a, b), costs.matmul(4, 6, 5, "fp32", batch=3))


def test_layer_norm_writes_mean_and_scale_of_each_row_besides():
    weight = torch.ones(128)
    found, least = count(F.layer_norm, X, (128,), weight, weight.clone()), costs.layer_norm(64, 128, "fp32")
    assert (found.flops, found.bytes_read, found.launches) == (least.flops, least.bytes_read, 1)
    assert found.bytes_written == least.bytes_written + 2 * 4 * 64


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_writes_one_number_a_row_besides(causal):
    q, k, v = (torch.randn(2, 4, 64, 32) for _ in range(3))
    found = count(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    least = costs.attention(2, 4, 64, 64, 32, "fp32", causal=causal)
    assert (found.flops, found.bytes_read, found.launches) == (least.flops, least.bytes_read, 1)
    assert found.bytes_written == least.bytes_written + 2 * 4 * 64 * 4  # log of the sum of each row, in fp32


def test_unfused_attention_scales_both_operands_and_counts_the_softmax():
    q, k, v = (torch.randn(2, 4, 64, 32) for _ in range(3))

    def attention():
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v)

    found, least = count(attention), costs.attention(2, 4, 64, 64, 32, "fp32", fused=False)
    scores, operand = 2 * 4 * 64 * 64, 4 * 2 * 4 * 64 * 32
    assert found.launches == least.launches + 2
    assert found.flops == least.flops + costs.softmax(2 * 4 * 64, 64, "fp32").flops + 2 * operand // 4
    assert found.bytes == least.bytes + 4 * operand
    assert {row["name"]: row["launches"] for row in found.rows()}["aten.bmm"] == 2
    assert scores * 5 == sum(k.flops for k in found.kernels if "softmax" in k.name)


def test_linear_layer_counts_its_bias():
    layer = torch.nn.Linear(128, 32)
    assert count(layer, X).flops == 2 * 64 * 128 * 32 + 64 * 32


def test_backward_is_two_products_for_one():
    w = torch.randn(128, 32, requires_grad=True)
    x = X.clone().requires_grad_()
    found = count(lambda: (x @ w).backward(torch.ones(64, 32)))
    products = [k for k in found.kernels if k.name == "aten.mm"]
    assert products[0].launches == 3
    assert products[0].flops == 3 * 2 * 64 * 128 * 32


def test_views_allocation_and_metadata_are_free():
    y = torch.randn(8, 8)
    with pytest.raises(ValueError, match="count saw no work"):
        count(
            lambda: (
                y.t(),
                y.view(64),
                y.expand(2, 8, 8),
                y[2:],
                y.detach(),
                torch.empty(1000),
                y.shape,
                y.reshape(4, 16),
            )
        )
    assert count(lambda: y.t().contiguous()).bytes == 2 * 256


def test_operands_count_once_by_what_is_stored():
    row = torch.randn(1, 128)
    assert count(torch.add, X, row.expand(64, 128)).bytes_read == 4 * (64 * 128 + 128)
    assert count(torch.mul, X, X).bytes_read == 4 * 64 * 128
    line = torch.randn(100)
    assert count(lambda: line[1:] - line[:-1]).bytes_read == 400
    assert count(torch.exp, line.unfold(0, 10, 1)).bytes_read == 400
    assert count_bytes([line[:10], line[50:60], line[55:65]]) == 4 * 25


def test_writes_in_place_and_without_reading():
    y = torch.zeros(100)
    assert (count(y.mul_, 2).bytes_read, count(y.mul_, 2).bytes_written) == (400, 400)
    assert (count(y.fill_, 2).bytes_read, count(y.fill_, 2).bytes_written) == (0, 400)
    assert (count(torch.zeros, 100).bytes_read, count(torch.zeros_like, y).bytes_read) == (0, 0)
    out = torch.empty(100)
    found = count(lambda: torch.add(y, y, out=out))
    assert (found.bytes_read, found.bytes_written) == (400, 400)


def test_gathers_and_scatters_touch_what_they_index():
    table = torch.nn.Embedding(1000, 16)
    index = torch.tensor([1, 2, 3])
    found = count(table, index)
    assert (found.bytes_read, found.bytes_written) == (3 * 16 * 4 + 3 * 8, 3 * 16 * 4)
    target, values = torch.zeros(1000, 16), torch.ones(3, 16)
    found = count(lambda: target.index_add_(0, index, values))
    assert (found.bytes_read, found.bytes_written) == (2 * 192 + 24, 192)
    found = count(lambda: target.index_copy_(0, index, values))
    assert (found.bytes_read, found.bytes_written) == (192 + 24, 192)
    found = count(lambda: target.index_put_((index,), values, accumulate=True))
    assert (found.bytes_read, found.bytes_written) == (2 * 192 + 24, 192)


IMAGE = torch.randn(4, 8, 16, 16)
SQUARE = torch.randn(64, 64)
SYMMETRIC = SQUARE @ SQUARE.t() + 64 * torch.eye(64)
SERIES = torch.randn(10, 4, 64)
COMPLEX = torch.randn(64, 64, dtype=torch.complex64)
N, NORM, CHANNELS = 64, 7 * IMAGE.numel(), 8
INDEX = torch.tensor([1, 2, 3])
ROWS = torch.zeros(4, 64, dtype=torch.int64)
LSTM = torch.nn.LSTM(64, 64)
LSTM_FLOPS = 40 * (2 * 256 * 128 + 2 * 256 + 9 * 64)  # steps times products, biases, gates


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        pytest.param(lambda: LSTM(SERIES), LSTM_FLOPS, id="lstm"),
        pytest.param(lambda: torch.nn.BatchNorm2d(8)(IMAGE), NORM + 6 * CHANNELS, id="batch norm"),
        pytest.param(lambda: torch.nn.GroupNorm(2, 8)(IMAGE), NORM, id="group norm"),
        pytest.param(lambda: torch.nn.InstanceNorm2d(8)(IMAGE), NORM, id="instance norm"),
        pytest.param(
            lambda: torch.addbmm(SQUARE[:4, :6], SERIES[:3, :, :5], SERIES[:3, :1, :5].mT.expand(3, 5, 6)),
            2 * 3 * 4 * 6 * 5 + 4 * 6,
            id="addbmm",
        ),
        pytest.param(lambda: torch.cdist(SQUARE, SQUARE, p=1.0), 3 * N**3, id="cdist, p 1"),
        pytest.param(lambda: torch.cdist(SQUARE, SQUARE), 2 * N * N * 66 + 2 * N * N + 4 * N * N, id="cdist, p 2"),
        pytest.param(
            lambda: F.bilinear(SQUARE[:5, :6], SQUARE[:5, :7], SERIES[:8, :1, :1].expand(8, 6, 7)),
            3 * 5 * 8 * 6 * 7,
            id="bilinear",
        ),
        pytest.param(lambda: torch.sparse.mm(torch.eye(64).to_sparse(), SQUARE), 2 * N * N, id="sparse product"),
        pytest.param(
            lambda: torch.mm(torch.eye(64).to_sparse_csr(), SQUARE),
            2 * N * N,
            id="sparse rows product",
            marks=pytest.mark.filterwarnings("ignore:Sparse"),  # a beta, and its invariants are not checked
        ),
        pytest.param(lambda: torch.linalg.cholesky(SYMMETRIC), N**3 / 3, id="cholesky"),
        pytest.param(lambda: torch.linalg.inv(SYMMETRIC), 2 * N**3, id="inverse"),
        pytest.param(lambda: torch.linalg.solve(SYMMETRIC, SQUARE), 2 / 3 * N**3 + 2 * N**3, id="solve"),
        pytest.param(lambda: torch.linalg.det(SQUARE), 2 / 3 * N**3, id="determinant"),
        pytest.param(lambda: F.avg_pool2d(IMAGE, 3, 1), 9 * 4 * 8 * 14 * 14, id="average pool"),
        pytest.param(lambda: F.max_pool2d(IMAGE, 2), IMAGE.numel(), id="max pool"),
        pytest.param(lambda: F.adaptive_avg_pool2d(IMAGE, 4), IMAGE.numel(), id="adaptive average pool"),
        pytest.param(lambda: F.adaptive_max_pool2d(IMAGE, 3), 4 * 8 * 18 * 18, id="adaptive pool, overlapping"),
        pytest.param(lambda: F.glu(SQUARE), N * N, id="glu"),
        pytest.param(lambda: F.hardswish(SQUARE), 5 * N * N, id="hardswish"),
        pytest.param(lambda: F.binary_cross_entropy_with_logits(SQUARE, SQUARE), 10 * N * N, id="bce with logits"),
        pytest.param(lambda: SQUARE.clone().index_add_(0, INDEX, SQUARE[:3]), 3 * N, id="index_add_"),
        pytest.param(lambda: SQUARE.clone().scatter_add_(0, ROWS, SQUARE), 4 * N, id="scatter_add_"),
        pytest.param(lambda: torch.fft.fft(COMPLEX), 5 * N * N * math.log2(N), id="fft"),
        pytest.param(lambda: torch.fft.rfft(SQUARE), 2.5 * N * N * math.log2(N), id="real fft"),
        pytest.param(lambda: COMPLEX @ COMPLEX, 8 * N**3, id="complex product"),
        pytest.param(lambda: COMPLEX * COMPLEX, 6 * N * N, id="complex multiply"),
        pytest.param(lambda: COMPLEX + COMPLEX, 2 * N * N, id="complex add"),
        pytest.param(lambda: SQUARE * COMPLEX, 2 * N * N, id="real by complex"),
        pytest.param(lambda: COMPLEX * 3.0, 2 * N * N, id="complex by a real number"),
        pytest.param(lambda: torch.arange(64).view(8, 8) @ torch.arange(64).view(8, 8), 0, id="integer product"),
    ],
)
def test_operations_with_formulas_of_their_own(function, flops):
    found = count(function)
    assert (found.flops, found.notes) == (pytest.approx(flops), ())


def test_convolution_counts_its_bias_forward_and_backward():
    with_bias, without = (torch.nn.Conv2d(8, 8, 3, padding=1, bias=bias) for bias in (True, False))
    assert count(with_bias, IMAGE).flops - count(without, IMAGE).flops == IMAGE.numel()
    found = [count(lambda c=c: c(IMAGE).sum().backward()).flops for c in (with_bias, without)]
    assert found[0] - found[1] == 2 * IMAGE.numel() - CHANNELS


@pytest.mark.parametrize("way", [{"fused": True}, {"foreach": True}, {"foreach": False}])
@pytest.mark.parametrize("kind", ["sgd", "momentum"])
def test_sgd_has_the_flops_of_costs(kind, way):
    p = torch.nn.Parameter(torch.randn(1000))
    p.grad = torch.randn(1000)
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9 if kind == "momentum" else 0, **way)
    optimizer.step()
    assert count(optimizer.step).flops == costs.optimizer_step(1000, kind=kind).flops


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda: torch.linalg.svd(SQUARE), "aten._linalg_svd"),
        (lambda: torch.linalg.qr(SQUARE), "aten.linalg_qr"),
        (lambda: torch.linalg.matrix_exp(SQUARE), "aten.linalg_matrix_exp"),
        (lambda: SQUARE.sort(), "aten.sort"),
        (lambda: COMPLEX.exp(), "aten.exp"),
    ],
)
def test_arithmetic_without_a_formula_is_said(function, operation):
    assert f"The arithmetic of {operation} is not counted." in count(function).notes


def test_operation_of_ones_own_is_said():
    @torch.library.custom_op("rooflab_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(x.detach().numpy() * 2)

    found = count(twice, X)
    assert found.notes == ("The arithmetic of rooflab_test.twice is not counted.",)
    assert (found.bytes_read, found.bytes_written) == (4 * X.numel(), 4 * X.numel())


@pytest.mark.parametrize(
    "function",
    [
        lambda: torch.cat([X, X]),
        lambda: F.pad(X, (1, 1)),
        lambda: X.tril().flip(0).roll(1).repeat(2, 2),
        lambda: (torch.randn(8), torch.arange(8.0), torch.eye(8), torch.rand_like(X), torch.full((3,), 1.0)),
        lambda: X.index_select(0, INDEX),
        lambda: X.clone().index_fill_(0, INDEX, 0.0),
    ],
)
def test_moves_are_no_arithmetic_and_need_no_note(function):
    found = count(function)
    assert (found.flops, found.notes) == (0, ())


def assign(target, key, value):
    target[key] = value


TABLE, ZERO = torch.zeros(100, 50), torch.zeros(())
ROW, ONE_CELL, SEVEN_ROWS = torch.ones(50), torch.zeros(100, 50, dtype=torch.bool), torch.zeros(100, dtype=torch.bool)
ONE_CELL[1, 1] = SEVEN_ROWS[:7] = True
# From torch 2.15 on a number is filled in: no tensor of it is read, and under a mask all is read and written.
FILLED = torch.__version__ >= "2.15"
NUMBER = 0 if FILLED else 4


def under(mask, written):
    return (mask + 20_000, 20_000) if FILLED else (mask + 4, written)


@pytest.mark.parametrize(
    ("function", "read", "written"),
    [
        pytest.param(lambda: assign(TABLE, INDEX, 0.0), 24 + NUMBER, 600, id="rows"),
        pytest.param(lambda: assign(TABLE, INDEX, ROW), 24 + 200, 600, id="rows by one row"),
        pytest.param(lambda: assign(TABLE, (slice(None), INDEX), 0.0), 24 + NUMBER, 1200, id="columns"),
        pytest.param(lambda: assign(TABLE, (INDEX, INDEX), 0.0), 24 + 4, 12, id="cells"),
        pytest.param(lambda: assign(TABLE, (INDEX[:, None], INDEX), 0.0), 24 + 4, 36, id="block"),
        pytest.param(lambda: assign(TABLE, ONE_CELL, 0.0), *under(5000, 4), id="mask"),
        pytest.param(lambda: assign(TABLE, SEVEN_ROWS, 0.0), *under(100, 1400), id="mask of rows"),
        pytest.param(lambda: assign(TABLE, ONE_CELL, ZERO), 5000 + 4, 4, id="mask, a tensor"),
        pytest.param(lambda: assign(TABLE, SEVEN_ROWS, ZERO), 100 + 4, 1400, id="mask of rows, a tensor"),
        pytest.param(lambda: TABLE.index_fill_(0, INDEX, 0.0), 24, 600, id="index_fill_"),
        pytest.param(lambda: TABLE.masked_scatter_(ONE_CELL, TABLE.t()[:1]), 5000 + 4, 4, id="masked_scatter_"),
        pytest.param(lambda: TABLE.scatter_(0, ROWS[:2, :3], X), 48 + 24, 24, id="scatter_"),
    ],
)
def test_indexed_writes_write_what_they_index(function, read, written):
    found = count(function)
    written_by = [k for k in found.kernels if k.name != "aten.lift_fresh"]
    assert len(written_by) == 1
    assert (found.bytes_read, found.bytes_written, found.flops, found.notes) == (read, written, 0, ())


def test_mask_without_values_is_said():
    target = torch.empty(64, 64, device="meta")
    assert any("mask" in note for note in count(lambda: assign(target, target > 0, target[0, 0])).notes)
    by_number = count(lambda: assign(target, target > 0, 0.0)).notes
    assert any("mask" in note for note in by_number) is not FILLED  # where a number is filled in, all is known
    cells = ONE_CELL.clone()
    assert any("mask" in note for note in count(lambda: assign(cells, cells, torch.tensor(False))).notes)


def test_sparse_tensors_count_as_stored():
    eye = torch.eye(64).to_sparse()
    assert count(lambda: torch.sparse.mm(eye, SQUARE)).kernels[-1].bytes_read == 64 * (4 + 16) + 2 * 4 * 64 * 64


def test_integer_arithmetic_is_no_flop():
    found = count(torch.add, torch.arange(8), torch.arange(8))
    assert (found.flops, found.bytes) == (0, 3 * 64)


def test_fused_optimizer_step_reads_four_and_writes_three_arrays():
    p = torch.nn.Parameter(torch.randn(1000))
    p.grad = torch.randn(1000)
    optimizer = torch.optim.AdamW([p], fused=True)
    optimizer.step()
    found, least = count(optimizer.step), costs.optimizer_step(1000)
    rows = {k.name: k for k in found.kernels}
    assert set(rows) == {"aten._fused_adamw_", "aten._foreach_add_"}  # the second counts the steps
    row = rows["aten._fused_adamw_"]
    assert (row.flops, row.bytes_read, row.bytes_written) == (least.flops, least.bytes_read + 4, least.bytes_written)


@pytest.mark.parametrize("grad", ["inference", "none", "grad"])
def test_modes_of_autograd_count_alike(grad):
    w = torch.randn(128, 128, requires_grad=grad == "grad")
    with torch.inference_mode(grad == "inference"):
        found = count(lambda: F.layer_norm(X @ w, (128,)))
    assert found.launches == 2
    assert found.flops == 2 * 64 * 128 * 128 + 7 * 64 * 128


def test_meta_and_fake_tensors_count_without_memory():
    a = torch.empty(4096, 4096, device="meta", dtype=torch.bfloat16)
    assert same(count(torch.matmul, a, a.clone()), costs.matmul(4096, 4096, 4096, "bf16"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        b = torch.empty(64, 64, device="cuda", dtype=torch.float16)
        assert same(count(torch.matmul, b, b + 1), costs.matmul(64, 64, 64, "fp16"))


def test_products_of_fake_tensors_count():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        a = torch.empty(64, 64)
        for function in (torch.matmul, torch.mm, F.linear):
            assert same(count(function, a, a.clone()), costs.matmul(64, 64, 64, "fp32"))
    assert count(torch.matmul, a, a).flops == 2 * 64**3


def test_comparison_of_tensors_counts():
    assert count(torch.equal, X, X.clone()).flops == X.numel()
    found = count(torch.allclose, X, X.clone())
    assert found.flops >= 6 * X.numel()
    assert found.launches > 1


def test_what_only_promises_work_is_refused():
    def generator():
        yield X + 1

    async def coroutine():
        return X + 1

    for function, what in ((generator, "a generator function"), (coroutine, "a coroutine function")):
        with pytest.raises(TypeError, match=rf"{what}.* a call of it does no work yet; measure a function that does"):
            count(function)
    with pytest.raises(TypeError, match="returns a generator, which has not done its work yet"):
        count(lambda: (X + i for i in range(3)))


def test_compiled_function_is_refused_with_one_sentence():
    compiled = torch.compile(lambda a: a * 2 + 1, backend="eager")
    with pytest.raises(ValueError, match="count the function itself") as error:
        count(compiled, X)
    assert str(error.value) == COMPILED_SENTENCE


def test_count_inside_count_and_errors_leave_nothing_behind():
    inner = []

    def outer():
        inner.append(count(torch.exp, X))
        return X + 1

    found = count(outer)
    assert (inner[0].launches, found.launches) == (1, 2)

    def broken():
        torch.exp(X)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        count(broken)
    assert count(torch.exp, X).launches == 1
    assert torch._C._len_torch_dispatch_stack() == 0


def test_counts_in_threads_do_not_mix():
    found = {}

    def work(number):
        found[number] = count(lambda: [torch.exp(X) for _ in range(number)]).launches

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1: 1, 2: 2, 3: 3}


def test_work_in_other_threads_is_said():
    def hand(start):
        found = count(lambda: (start(), X + 1))
        assert any("other threads" in note for note in found.notes)
        assert found.launches == 1

    started, submit = threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit
    with concurrent.futures.ThreadPoolExecutor(1) as pool, multiprocessing.pool.ThreadPool(1) as other:
        pool.submit(int).result()
        hand(lambda: pool.submit(torch.mm, X, X.t()).result())
        hand(lambda: list(pool.map(torch.exp, [X])))
        hand(lambda: other.map(torch.exp, [X]))
        hand(lambda: other.apply(torch.exp, (X,)))
        with pytest.raises(ValueError, match="other threads"):
            count(lambda: pool.submit(torch.mm, X, X.t()).result())
    hand(lambda: queue.Queue().put(X))
    thread = threading.Thread(target=torch.exp, args=(X,))
    hand(lambda: (thread.start(), thread.join()))
    assert (threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit) == (started, submit)
    assert count(torch.exp, X).notes == ()


def test_result_is_work_and_says_what_it_is():
    found = count(torch.matmul, X, X.t(), name="gram")
    assert isinstance(found, costs.Work)
    assert dataclasses.is_dataclass(found)
    assert (found.world, found.name, found.bytes_moved, found.moved_per_used, found.races) == (
        "torch",
        "gram",
        None,
        None,
        None,
    )
    assert found.describe().startswith("Counted (torch): 1 launch, 1.05 MFLOP")
    assert (found + found).launches == 2


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="expected a function to count"):
        count(X.sum())
    with pytest.raises(ValueError, match="expected world to be"):
        count(torch.exp, X, world="numpy")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: RMS norm is one kernel there only")
def test_rms_norm_is_one_kernel_on_a_gpu():
    x, weight = torch.randn(64, 128, device="cuda", requires_grad=True), torch.ones(128, device="cuda")
    found, least = count(F.rms_norm, x, (128,), weight), costs.rms_norm(64, 128, "fp32")
    assert (found.flops, found.bytes_read, found.launches) == (least.flops, least.bytes_read, 1)
    assert [k.name for k in count(lambda: F.rms_norm(x, (128,)).sum().backward()).kernels][-1].endswith("norm_backward")
