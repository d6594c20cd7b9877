"""The product of few rows and weights in 4 bits that is in Gluon: its source run with NumPy, and its machine code."""

import re

import numpy as np
import pytest

from rooflab.tolerances import tolerance

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels import launching
from rooflab.kernels.products import torch_matvec, torch_matvec_hopper
from rooflab.kernels.products import triton_matvec_hopper as hopper
from rooflab.kernels.products.torch_matvec import splits
from rooflab.kernels.products.torch_matvec_hopper import hopper_blocks, step_of, whole_words
from rooflab.kernels.quantize.weights import numbers, quantize_weights

from . import gluon_threads as threads
from .agreement import DEVICE, random, torch
from .compiling import told_elsewhere

BF16 = pytest.importorskip("ml_dtypes", reason="needs bf16 in NumPy").bfloat16


def registers_after(ptx, word, dtype):
    """Run the instructions that the kernel has in PTX: words of eight codes to four words of two numbers each."""
    held = {"$4": word}

    def value(name):
        return held[name] if name in held else np.uint32(int(name, 0))

    for operation, told in re.findall(r"(mov|lop3|shr|add)\S* ([^;]+);", ptx):
        to, *names = (each.strip() for each in told.split(","))
        a, *more = (value(each) for each in names)
        if operation == "mov":
            held[to] = a
        elif operation == "shr":
            held[to] = a >> more[0]
        elif operation == "lop3":
            assert names[3] == "0xEA"
            held[to] = a & more[0] | more[1]
        else:
            b = np.broadcast_to(more[0], a.shape)
            halves = [
                ((x >> i & 0xFFFF).astype(np.uint16).view(dtype)).astype(np.float32) for x in (a, b) for i in (0, 16)
            ]
            low, high = ((halves[i] + halves[2 + i]).astype(dtype).view(np.uint16).astype(np.uint32) for i in (0, 1))
            held[to] = low | high << np.uint32(16)
    return [held[f"${i}"] for i in range(4)]


def inline_asm(ptx, constraints, args, *, dtype, is_pure, pack):
    """Four elements at a time, which are the same word, in registers $4 to $7; results in $0, $1 and in $2, $3."""
    (four,) = args
    assert pack == 4 == four.shape[-1]
    assert (four == four[..., :1]).all()
    out = registers_after(ptx, np.ascontiguousarray(four[..., 0]).view(np.uint32), dtype[0])
    halves = [np.stack([w & 0xFFFF, w >> 16], -1).astype(np.uint16).view(dtype[0]) for w in out]
    return tuple(threads.tensor(np.concatenate(halves[i : i + 2], -1)) for i in (0, 2))


def multiply(a, b, acc):
    return threads.tensor(np.asarray(a, np.float32) @ np.asarray(b, np.float32) + acc)


class Machine(threads.Machine):
    """One program, whose layouts say nothing: what they mean is checked when the kernel is compiled."""

    def __init__(self, place, warps):
        super().__init__(place, None)
        self.warps = warps

    def language(self):
        gl = super().language()
        gl.program_id, gl.num_warps = lambda axis: np.int64(self.place[axis]), lambda: self.warps
        gl.DistributedLinearLayout = gl.SliceLayout
        gl.convert_layout = lambda x, layout, assert_trivial=False: x
        gl.full = lambda shape, value, dtype, layout: threads.tensor(np.full(shape, value, dtype))
        gl.split = lambda x: (x[..., 0], x[..., 1])
        gl.broadcast, gl.inline_asm_elementwise = np.broadcast_arrays, inline_asm
        gl.bfloat16, gl.float16 = BF16, np.float16
        return gl


def product(monkeypatch, rows, n, k, group, choice, *, zeros=False, dtype="bf16", many=1, x=None):
    """Run the kernel as `matvec` would launch it; returns the result, and the right one in float64."""
    monkeypatch.setattr(hopper, "mma_v2", multiply)
    generator = torch.Generator().manual_seed(0)
    kind, held = {"bf16": (torch.bfloat16, BF16), "fp16": (torch.float16, np.float16)}[dtype]
    x = torch.randn(rows, k, generator=generator).to(kind) if x is None else x.to(kind)
    w = quantize_weights(torch.randn(n, k, generator=generator).to(kind), "int4", group, zeros=zeros)
    right = (x.double() @ numbers(*w, dtype=torch.float64).T).numpy()
    choice = dict(choice)
    steps, parts = splits(n, k, {**choice, "KB": step_of(choice, group)}, many)
    warps, _ = choice.pop("num_warps"), choice.pop("PER_SM")
    y = np.full((parts, rows, n), np.nan, held if parts == 1 else np.float32)
    # By groups, or by rows: as they lie in memory, with one step of one.
    scales, *points = (each if each.stride(1) == 1 else each.t() for each in w[1:])
    flat = [each.contiguous().view(torch.int16).numpy().ravel().view(held) for each in (x, scales)]
    zero = threads.Pointer(points[0].numpy().ravel()) if zeros else None
    assert 1 in w[1].stride()
    place = threads.Pointer(y.reshape(-1))
    for at in np.ndindex(-(-n // choice["R"]), parts):
        with np.errstate(all="ignore"):
            Machine(at, warps).run(
                "matvec_hopper_kernel", hopper, place, threads.Pointer(flat[0]),
                threads.Pointer(w[0].numpy().ravel().view(np.int32)), threads.Pointer(flat[1]), zero,
                n, k, k // 8, k, *w[1].stride(), rows, steps, GROUP=group, ZERO=zeros, **choice,
            )  # fmt: skip
    return y.astype(np.float64).sum(0), right


def near(found, right, dtype, k):
    allowed = tolerance(dtype, k, scale=float(np.nanmax(np.abs(right))))
    np.testing.assert_allclose(found, right, rtol=allowed.rtol, atol=allowed.atol)


KINDS = [(group, zeros) for group in (128, 64, 32) for zeros in (False, True)]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(("group", "zeros"), KINDS)
@pytest.mark.parametrize(("rows", "n", "k"), [(1, 33, 1024), (3, 70, 384), (8, 16, 2176)])
def test_results_agree_with_float64(rows, n, k, group, zeros, dtype, monkeypatch):
    for place in {0, len(hopper_blocks(k // group, group)) - 1}:
        choice = hopper_blocks(k // group, group)[place]
        near(*product(monkeypatch, rows, n, k, group, choice, zeros=zeros, dtype=dtype), dtype, k)


@pytest.mark.parametrize("group", [128, 64, 32])
def test_every_choice_gives_the_same(group, monkeypatch):
    for choice in hopper_blocks(16, group):
        near(*product(monkeypatch, 2, 40, 16 * group, group, choice, zeros=True), "bf16", 16 * group)


@pytest.mark.parametrize("many", [1, 3, 40])
def test_ranges_of_k_end_where_the_next_ones_begin(many, monkeypatch):
    choice = {"R": 16, "D": 1, "BUFFERS": 3, "ABREAST": 1, "SPREAD": 0, "PER_SM": 2, "num_warps": 1}
    near(*product(monkeypatch, 1, 16, 128 * 11, 128, choice, many=many), "bf16", 128 * 11)


def test_an_infinite_x_stays_in_its_row(monkeypatch):
    x = torch.ones(3, 384)
    x[0, 383], x[1, 5] = np.inf, np.nan
    found, right = product(monkeypatch, 3, 20, 384, 128, hopper_blocks(3, 128)[0], x=x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(right))
    near(found[2], right[2], "bf16", 384)


@pytest.mark.parametrize(("name", "dtype"), [("_BF16", BF16), ("_FP16", np.float16)])
def test_every_code_becomes_its_number(name, dtype):
    for place in range(8):
        codes = np.arange(16, dtype=np.uint32)
        words = codes << np.uint32(4 * place) | np.uint32(0x88888888 & ~(15 << 4 * place))
        found = registers_after(getattr(hopper, name).value, words, dtype)
        halves = {k: found[i] >> 16 * (k > 3) & 0xFFFF for k, i in zip(range(8), (0, 2, 1, 3) * 2, strict=True)}
        for k, each in halves.items():
            expected = codes.astype(int) - 8 if k == place else np.zeros(16)
            assert each.astype(np.uint16).view(dtype).astype(float).tolist() == expected.tolist()


@pytest.mark.parametrize("many", [1, 132])
@pytest.mark.parametrize("zeros", [False, True])
def test_matvec_launches_it(zeros, many, monkeypatch):
    """From the operator to the kernel and, with ranges of K, to their sum; W's rows do not lie side by side.

    On a GPU that can it is launched, else its source is run.
    """
    x, w = random(2, 1024, dtype=torch.bfloat16), random(80, 1024, dtype=torch.bfloat16, seed=1)
    codes, *scales = quantize_weights(w, "int4", 128, zeros=zeros)
    wide = torch.cat([codes, codes], 1)[:, :512]
    if DEVICE == "cpu":
        monkeypatch.setattr(hopper, "mma_v2", multiply)
    elif not torch_matvec_hopper.on_hopper(x, wide):
        pytest.skip("needs a GPU that has this kernel, or none at all: what stands for one takes tensors on the CPU")
    monkeypatch.setattr(torch_matvec, "on_hopper", lambda x, w: whole_words(w))
    monkeypatch.setattr(torch_matvec, "processors", lambda device: (many, True))
    monkeypatch.setattr(torch_matvec, "choose", lambda name, key, found, run, device: found[0])
    grids = []

    def pointer(x):
        flat = torch.as_strided(x, (sum(s * (n - 1) for s, n in zip(x.stride(), x.shape, strict=True)) + 1,), (1,))
        half = x.dtype == torch.bfloat16
        return threads.Pointer(flat.view(torch.int16).numpy().view(BF16) if half else flat.numpy())

    def launch(kernel, grid, *args, num_warps, **constants):
        grids.append(grid)
        if DEVICE != "cpu":
            launching.launch(kernel, grid, *args, num_warps=num_warps, **constants)
            return
        given = [pointer(each) if isinstance(each, torch.Tensor) else each for each in args]
        for at in np.ndindex(*grid):
            with np.errstate(all="ignore"):
                Machine(at, num_warps).run(kernel.__name__, hopper, *given, **constants)

    monkeypatch.setattr(torch_matvec_hopper, "launch", launch)
    found = torch_matvec.matvec(x, wide, *scales)
    assert grids == [(3, 1 if many == 1 else 2)]
    right = x.double() @ numbers(codes, *scales, dtype=torch.float64).T
    near(found.double().cpu().numpy(), right.cpu().numpy(), "bf16", 1024)


def test_only_whole_words_are_taken_as_they_lie():
    w = torch.zeros(4, 64, dtype=torch.uint8)
    assert whole_words(w)
    assert whole_words(w[1:, 16:])
    assert not whole_words(w[:, 2:34])
    assert not whole_words(w[:, :62])
    assert not whole_words(w.t())
    assert not whole_words(torch.zeros(4, 66, dtype=torch.uint8)[:, :64])


CODE = """
import json
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.products.builds import matvec_hopper
told = {}
for group, zeros in ((128, False), (64, False), (32, True)):
    build = matvec_hopper(group=group, zeros=zeros)
    made = compile_for(build, "sm90")
    codes = build.constants["R"] * build.constants["D"] * build.constants["BUFFERS"] * group / 32
    told[group] = [made.longest_loop() / codes, made.spill_bytes]
print(json.dumps(told))
"""


def test_the_instructions_of_a_code_leave_time_for_the_memory(tmp_path):
    """An H200 has 3.9 for a code in the time of its half byte, 4.6 where a group of 32 has a zero point, too."""
    told = told_elsewhere(CODE, tmp_path)
    assert {group: spilled for group, (_, spilled) in told.items() if spilled} == {}
    most = {"128": 2.5, "64": 2.7, "32": 4.5}
    assert {group: each for group, (each, _) in told.items() if each > most[group]} == {}
