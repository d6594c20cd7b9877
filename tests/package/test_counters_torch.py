import dataclasses
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
