import os
import subprocess
import sys

import pytest
import torch
import triton

from rooflab.counters import count, use_interpreter
from rooflab.counters.interpreter import TOO_LATE, interpreting

from . import kernels_for_tests as kernels

if not interpreting():
    pytest.skip("Triton compiles its kernels in this process; set TRITON_INTERPRET=1", allow_module_level=True)

F32 = 4  # bytes


def run(kernel, grid, *args, **constants):
    """A function that launches one kernel, for `count`."""
    return lambda: kernel[grid](*args, **constants)


def test_copy_moves_what_it_uses():
    x, y = torch.randn(1000), torch.zeros(1000)
    found = count(run(kernels.copy_kernel, (4,), x, y, 1000, BLOCK=256))
    assert torch.equal(x, y)
    assert (found.bytes_read, found.bytes_written, found.flops) == (1000 * F32, 1000 * F32, 0)
    assert (found.sectors, found.bytes_moved, found.moved_per_used) == (2 * 125, 8000, 1.0)
    assert (found.programs, found.launches, found.world) == (4, 1, "triton")
    assert found.faults == ()


def test_reading_down_a_column_moves_eight_bytes_for_one():
    x, y = torch.randn(100, 64), torch.zeros(64)
    found = count(run(kernels.column_kernel, (64,), x, y, 100, 64, BLOCK=128))
    torch.testing.assert_close(y, x.sum(0))
    assert (found.bytes_read, found.bytes_written) == (100 * 64 * F32, 64 * F32)
    assert found.sectors == 100 * 64 + 64  # every element read or written is a sector of its own
    assert found.moved_per_used == 8
    assert found.flops == 64 * 127  # lanes that the mask leaves out are added too


@pytest.mark.parametrize(("n", "tile", "programs", "moved_per_used"), [(64, 32, 4, 1), (16, 1, 256, 8)])
def test_transpose_by_tiles_uses_whole_sectors(n, tile, programs, moved_per_used):
    x, y = torch.randn(n, n), torch.zeros(n, n)
    found = count(run(kernels.transpose_kernel, (n // tile, n // tile), x, y, n, TILE=tile))
    assert torch.equal(y, x.t())
    assert found.programs == programs
    assert found.bytes == 2 * n * n * F32
    assert found.moved_per_used == moved_per_used


def test_softmax_counts_one_flop_a_lane_and_step():
    x, y = torch.randn(8, 100), torch.zeros(8, 100)
    found = count(run(kernels.softmax_kernel, (8,), x, y, 100, BLOCK=128))
    torch.testing.assert_close(y, torch.softmax(x, -1))
    assert found.flops == 8 * (127 + 128 + 128 + 127 + 128)  # max, subtract, exp, sum, divide
    assert (found.bytes_read, found.bytes_written) == (3200, 3200)
    # Rows of 400 bytes begin in the middle of a sector every other time: 13 sectors each.
    assert found.sectors == 2 * 8 * 13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_matmul_rereads_its_operands_tile_by_tile(dtype):
    a, b, c = torch.randn(64, 128, dtype=dtype), torch.randn(128, 96, dtype=dtype), torch.zeros(64, 96, dtype=dtype)
    found = count(run(kernels.matmul_kernel, (2, 3), a, b, c, 64, 96, 128, BM=32, BN=32, BK=32))
    expected = a.double() @ b.double()
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(c.double(), expected, rtol=eps, atol=1e-3 if dtype == torch.float32 else 8 * eps)
    size = a.element_size()
    assert found.flops == 2 * 64 * 96 * 128
    assert found.bytes_read == size * (
        64 * 128 * 3 + 128 * 96 * 2
    )  # a once for each of 3 columns of tiles, b for 2 rows
    assert found.bytes_written == size * 64 * 96
    assert found.moved_per_used == 1
    assert found.dtype == {4: "tf32", 2: "fp16" if dtype == torch.float16 else "bf16"}[size]


def test_racy_histogram_is_found_and_the_atomic_one_is_not():
    x = torch.arange(256, dtype=torch.int32) % 8
    bins = torch.zeros(8, dtype=torch.int32)
    found = count(run(kernels.racy_histogram_kernel, (4,), x, bins, BLOCK=64))
    ways = {access.way: access for access in found.races}
    assert set(ways) == {"race (read after write)", "race (write after write)", "race (write after read)"}
    assert ways["race (write after write)"].elements == 3 * 64
    assert ways["race (write after write)"].argument == "bins"
    assert "program (1, 0, 0), element 0 of 8, program (0, 0, 0) before, line" in found.describe()
    assert bins.sum() < 256

    bins.zero_()
    found = count(run(kernels.atomic_histogram_kernel, (4,), x, bins, BLOCK=64))
    assert found.races == ()
    assert bins.tolist() == [32] * 8
    assert (found.bytes_read, found.bytes_written) == (1024 + 4 * 32, 4 * 32)


def test_reading_what_a_neighbour_writes_is_a_race():
    found = count(run(kernels.neighbour_kernel, (4,), torch.ones(64), BLOCK=16))
    assert [(a.way, a.elements) for a in found.races] == [("race (write after read)", 3)]


def test_two_lanes_that_write_one_place_race():
    x, y = torch.arange(64.0), torch.zeros(8)
    found = count(run(kernels.collide_kernel, (1,), x, y, BLOCK=64))
    assert [(a.way, a.elements) for a in found.races] == [("race (two lanes of one write)", 56)]


def test_out_of_bounds_read_is_reported_and_left_out():
    x, y = torch.randn(1000), torch.zeros(1000)
    found = count(run(kernels.unmasked_kernel, (4,), x, y, 1000, BLOCK=256))
    assert torch.equal(x, y)
    (access,) = found.out_of_bounds
    assert (access.kernel, access.way, access.argument, access.elements) == (
        "unmasked_kernel", "read out of bounds", "x", 24,
    )  # fmt: skip
    assert "program (3, 0, 0), element 1000 of 1000, line" in access.example
    assert (found.bytes_read, found.sectors) == (4000, 250)


def test_far_out_of_bounds_write_is_dropped_and_named():
    x, y = torch.randn(64), torch.zeros(64)
    found = count(run(kernels.far_kernel, (1,), x, y, -(10**9), BLOCK=64))
    (access,) = found.out_of_bounds
    assert (access.way, access.argument, access.elements) == ("write out of bounds", "y", 64)
    assert not y.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bf16_is_right_while_counted(dtype):
    x, y = torch.randn(4, 100).to(dtype), torch.zeros(4, dtype=dtype)
    found = count(run(kernels.row_sum_kernel, (4,), x, y, 100, BLOCK=128))
    # Masked lanes hold 0 and add 0 * 2 + 1; each step rounds to the format, the sum at the end.
    expected = (x * 2 + 1).double().sum(1) + 28
    torch.testing.assert_close(y.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-4)
    assert (found.bytes_read, found.bytes_written) == (400 * x.element_size(), 4 * x.element_size())
    assert found.dtype == {4: "fp32", 2: "bf16"}[x.element_size()]


@pytest.mark.parametrize("value", [1.00390625, 1.01171875, -3.14159, 65504.0, float("inf"), float("nan"), 1e-40])
def test_bf16_stores_round_as_torch_does(value):
    x, y = torch.full((16,), value), torch.zeros(16, dtype=torch.bfloat16)
    count(run(kernels.copy_kernel, (1,), x, y, 16, BLOCK=16))
    assert torch.equal(y, x.bfloat16()) or (torch.isnan(y).all() and torch.isnan(x).all())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_fp8_stores_round_as_torch_does_and_saturate(dtype):
    x = torch.cat([torch.linspace(-20, 20, 1000), torch.logspace(-6, 2, 1000), torch.tensor([1e6, -1e6])])
    x, y = torch.cat([x, torch.zeros(2048 - len(x))]), torch.zeros(2048, dtype=dtype)
    found = count(run(kernels.copy_kernel, (2,), x, y, 2048, BLOCK=1024))
    limit = torch.finfo(dtype).max
    assert torch.equal(y.float(), x.clamp(-limit, limit).to(dtype).float())
    assert found.bytes_written == 2048


@pytest.mark.parametrize("to", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_every_fp8_number_is_read_as_torch_reads_it(dtype, to):
    x, y = torch.arange(256, dtype=torch.uint8).view(dtype), torch.zeros(256, dtype=to)
    count(run(kernels.copy_kernel, (1,), x, y, 256, BLOCK=256))
    assert torch.equal(y.isnan(), x.float().isnan())
    assert torch.equal(y.nan_to_num(), x.to(to).nan_to_num())


def test_uninitialised_read_is_found_unless_torch_wrote_it():
    x = torch.ones(1024)

    def accumulate(fill):
        y = torch.empty(1024)
        if fill:
            y.zero_()
        kernels.accumulate_kernel[(4,)](x, y, BLOCK=256)
        return y

    found = count(accumulate, False)
    assert [(a.way, a.argument, a.elements) for a in found.uninitialised] == [("uninitialised read", "y", 1024)]
    assert count(accumulate, True).uninitialised == ()


def test_result_with_a_gap_is_found():
    def copy(programs):
        y = torch.empty(1024)
        kernels.copy_kernel[(programs,)](torch.ones(1024), y, 1024, BLOCK=256)
        return y

    (gap,) = count(copy, 3).uninitialised
    assert (gap.argument, gap.elements, gap.example) == ("result 0", 256, "element 768 of 1024")
    assert count(copy, 4).uninitialised == ()


def test_gap_that_torch_reads_is_found():
    def total(grid, use):
        y = torch.empty(1000)
        kernels.copy_kernel[(grid,)](torch.randn(1000), y, 1000, BLOCK=256)
        return use(y)

    for use in (torch.sum, lambda y: y + 1, lambda y: y.mul_(2.0).sum(), lambda y: y[700:].max()):
        gap, *_ = count(total, 3, use).uninitialised
        assert (gap.way, gap.argument, gap.elements) == ("uninitialised read", "operand 0", 1000 - 768)
        assert gap.kernel.startswith("aten.")
        assert count(total, 4, use).uninitialised == ()
    for use in (lambda y: y[:768].sum(), lambda y: y.fill_(1.0).sum(), lambda y: y[torch.arange(3)].sum()):
        assert count(total, 3, use).uninitialised == ()


def test_kernels_and_operations_are_counted_together():
    def scaled_copy(x):
        y = torch.empty_like(x)
        kernels.copy_kernel[(4,)](x * 2, y, 1000, BLOCK=256)
        return y

    x = torch.randn(1000)
    found = count(scaled_copy, x)
    assert (found.world, found.launches, found.bytes) == ("torch + triton", 2, 16000)
    assert found.sectors == 500
    assert [row["name"] for row in found.rows()] == ["aten.mul", "copy_kernel"]
    alone = count(scaled_copy, x, world="triton")
    assert (alone.world, alone.launches, alone.sectors) == ("triton", 1, 250)


def test_views_count_within_their_storage():
    base = torch.arange(100.0)
    y = torch.zeros(40)
    found = count(run(kernels.copy_kernel, (1,), base[10:50], y, 40, BLOCK=64))
    assert torch.equal(y, base[10:50])
    assert found.faults == ()
    assert found.sectors == 6 + 5  # 160 bytes from byte 40 on touch six sectors


def test_autotuned_kernel_runs_its_first_configuration_once():
    tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(
        kernels.copy_kernel
    )
    x, y = torch.randn(256), torch.zeros(256)
    found = count(run(tuned, lambda meta: (triton.cdiv(256, meta["BLOCK"]),), x, y, 256))
    assert (found.launches, found.programs) == (1, 4)
    assert "first of its configurations" in found.describe()


def test_descriptors_are_counted():
    if not hasattr(triton.language, "make_tensor_descriptor"):
        pytest.skip("this Triton has no tensor descriptors")
    x, y = torch.randn(64, 64), torch.zeros(64, 64)
    found = count(run(kernels.descriptor_kernel, (2, 2), x, y, 64, TILE=32))
    assert torch.equal(x, y)
    assert (found.bytes, found.faults) == (2 * 64 * 64 * F32, ())


def test_everything_is_put_back_even_after_an_error():
    from triton.runtime import interpreter, jit

    owners = (
        interpreter,
        interpreter.InterpreterBuilder,
        interpreter.GridExecutor,
        interpreter.ReduceOps,
        jit.JITFunction,
    )
    before = [dict(vars(owner)) for owner in owners]

    def broken():
        kernels.copy_kernel[(1,)](torch.ones(8), torch.ones(8), 8, BLOCK=8)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        count(broken)
    assert [dict(vars(owner)) for owner in owners] == before


def test_unknown_interpreter_is_said_when_a_kernel_runs(monkeypatch):
    from triton.runtime import interpreter

    monkeypatch.delattr(interpreter, "_convert_float")
    assert count(torch.exp, torch.ones(8)).launches == 1
    with pytest.raises(RuntimeError, match=r"use Triton 3\.6 to 3\.9"):
        count(run(kernels.copy_kernel, (1,), torch.ones(8), torch.ones(8), 8, BLOCK=8))


def test_count_inside_count_sees_kernels_in_both():
    x, y = torch.ones(64), torch.zeros(64)
    inner = []
    launch = run(kernels.unmasked_kernel, (1,), x, y, 64, BLOCK=128)
    found = count(lambda: (inner.append(count(launch)), launch()))
    assert (inner[0].launches, found.launches) == (1, 2)
    assert [a.elements for a in found.out_of_bounds] == [128]


def test_use_interpreter_is_allowed_while_interpreting():
    use_interpreter()
    assert os.environ["TRITON_INTERPRET"] == "1"


@pytest.mark.parametrize(
    "code",
    [
        "import triton; from rooflab.counters import use_interpreter; use_interpreter()",
        "import triton, torch, sys; sys.path.insert(0, {here!r}); import kernels_for_tests as k\n"
        "from rooflab.counters import count; x = torch.ones(64)\n"
        "count(lambda: k.copy_kernel[(1,)](x, x, 64, BLOCK=64))",
    ],
)
def test_too_late_is_said_with_the_way_out(code):
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = code.format(here=os.path.dirname(__file__))
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert found.returncode == 1
    assert f"RuntimeError: {TOO_LATE}" in found.stderr


def test_resized_storage_is_no_longer_tracked():
    def resize():
        y = torch.empty(4)
        y.resize_(1 << 16)
        y.zero_()
        kernels.copy_kernel[(1,)](torch.ones(8), y, 8, BLOCK=8)
        return y

    assert count(resize).faults == ()


def test_kernel_under_autograd_is_counted_in_the_backward_pass():
    class Copy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            out = torch.empty_like(grad)
            kernels.copy_kernel[(1,)](grad.contiguous(), out, grad.numel(), BLOCK=64)
            return out

    x = torch.randn(64, requires_grad=True)
    found = count(lambda: Copy.apply(x).sum().backward())
    assert {k.name: k.launches for k in found.kernels}["copy_kernel"] == 1
    assert torch.equal(x.grad, torch.ones(64))
