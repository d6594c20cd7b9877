"""Products of few rows and weights in 16, 8 and 4 bits, against float64; bytes, instructions, and the PTX by itself."""

import math
import re

import pytest

from rooflab import costs, kernels
from rooflab.counters import count
from rooflab.kernels.products.torch_matvec import blocks, splits, thin_product
from rooflab.kernels.quantize.weights import numbers
from rooflab.kernels.tuning import known_choices

from .agreement import DEVICE, counts, near, random, torch
from .compiling import SINCE_39, told_elsewhere

HALVES = (torch.bfloat16, torch.float16)
# Of weights: form, group (0: a row), zero points.
KINDS = [("plain", 0, False), ("int8", 0, False), ("int8", 128, False), ("fp8", 0, False), ("int4", 128, False)]
KINDS += [("int4", group, zeros) for group in (32, 64) for zeros in (False, True)]


def stored(w, form, group, zeros=False):
    return (w,) if form == "plain" else kernels.quantize_weights(w, form, group, zeros=zeros)


def right(x, w):
    return x.double() @ numbers(*w, dtype=torch.float64).T


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("shape", [(1, 33, 256), (3, 70, 128), (8, 5, 384)], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_results_agree_with_float64(kind, shape, dtype):
    rows, n, k = shape
    x, w = random(rows, k, dtype=dtype), stored(random(n, k, dtype=dtype, seed=1), *kind)
    near(kernels.matvec(x, *w), right(x, w), length=k)


@pytest.mark.parametrize("form", ["plain", "int8", "fp8"])
@pytest.mark.parametrize("k", [1, 65, 200])
def test_rows_of_any_length(form, k):
    x, w = random(2, k, dtype=torch.bfloat16), stored(random(9, k, dtype=torch.bfloat16, seed=1), form, 0)
    near(kernels.matvec(x, *w), right(x, w), length=k)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_ranges_are_added_up(kind, monkeypatch):
    """Of few rows of W and a long K, the multiprocessors share K."""
    x, w = random(1, 1024, dtype=torch.bfloat16), stored(random(3, 1024, dtype=torch.bfloat16, seed=1), *kind)
    found = kernels.matvec(x, *w)
    near(found, right(x, w), length=1024)
    monkeypatch.setattr("rooflab.kernels.products.torch_matvec.processors", lambda device: (1, True))
    near(kernels.matvec(x, *w), right(x, w), length=1024)


def test_every_code_becomes_its_number():
    x = torch.ones(1, 128, dtype=torch.float16, device=DEVICE)
    for codes in (torch.arange(256), torch.arange(256).flip(0)):
        bytes_of = torch.zeros(256, 128, dtype=torch.uint8)
        bytes_of[:, 5] = codes
        for form in (torch.int8, torch.float8_e4m3fn):
            w = bytes_of.view(form).to(DEVICE)
            wanted = w.double().sum(1)[None]
            near(kernels.matvec(x, w, torch.ones(256, device=DEVICE)), wanted, length=1)
        half = bytes_of[:, :64].to(DEVICE)
        scale = torch.ones(256, 1, device=DEVICE)
        near(kernels.matvec(x, half, scale), right(x, (half, scale)), length=1)


def test_strides_of_any_kind():
    x, w = random(6, 128, dtype=torch.bfloat16), stored(random(40, 128, dtype=torch.bfloat16, seed=1), "int8", 128)
    wide = torch.cat([w[0], w[0]], 1)[::2, :128]
    expected = kernels.matvec(x, w[0][::2].contiguous(), w[1][::2].contiguous())
    assert torch.equal(kernels.matvec(x, wide, w[1][::2]), expected)
    assert torch.equal(kernels.matvec(x.t().contiguous().t(), w[0][::2].t().contiguous().t(), w[1][::2]), expected)
    assert torch.equal(kernels.matvec(x.view(2, 3, 128), wide, w[1][::2]), expected.view(2, 3, 20))
    assert torch.equal(kernels.matvec(x[0], wide, w[1][::2]), expected[0])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_nan_and_infinity(kind):
    x, w = random(3, 256, dtype=torch.bfloat16), list(stored(random(20, 256, dtype=torch.bfloat16, seed=1), *kind))
    x[1, 7], x[2, 200] = math.nan, math.inf
    if len(w) > 1:
        w[1][4] = math.nan
    found, wanted = kernels.matvec(x, *w), right(x, w)
    assert found[1].isnan().all()
    if kind[2]:  # an infinite x meets its zero point apart from its code, perhaps infinity less infinity
        assert not found[2].isfinite().any()
        found, wanted = found[:2], wanted[:2]
    near(found, wanted, length=256)


def test_weights_that_are_no_numbers_stay_so():
    w = random(3, 128)
    w[1, 70], w[2, 3] = math.nan, math.inf
    for form in ("int4", "int8", "fp8"):
        found = numbers(*kernels.quantize_weights(w, form, 128))
        assert found[0].isfinite().all()
        assert not found[1:].isfinite().any()


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
def test_weights_whose_scales_are_subnormal_are_neither_nan_nor_lost(kind, dtype):
    form, group, zeros = kind
    least = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps  # the smallest number above zero
    for size in (1, 3, 50, 168, 1000, 20_000):
        w = torch.full((2, 128), size * least, dtype=dtype, device=DEVICE)
        w[0, :5] = 0.0
        w[1, 7] *= -1
        codes = stored(w, form, group, zeros)
        assert (codes[1] > 0).all()
        groups, step = w.double().unflatten(1, (-1, group or 128)), codes[1].double().reshape(2, -1, 1)
        found = numbers(*codes, dtype=torch.float64).unflatten(1, (-1, group or 128))
        allowed = step * (1.0 if zeros else 0.5) if form != "fp8" else step * 2.0**-10 + groups.abs() * 2.0**-4
        assert ((found - groups).abs() <= allowed * 1.01).all(), size
        steps = {"int4": 15 if zeros else 7, "int8": 127, "fp8": 448}[form]
        reach = groups.amax(-1, keepdim=True) - groups.amin(-1, keepdim=True).clamp(max=0) if zeros else size * least
        assert (step <= reach / steps * 1.01 + least).all(), "no coarser than its format makes it"


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_the_largest_weights_of_both_signs_have_finite_scales(dtype):
    w = torch.full((1, 64), torch.finfo(dtype).max * 0.9, dtype=dtype, device=DEVICE)
    w[0, ::2] *= -1
    found = numbers(*kernels.quantize_weights(w, "int4", 64, zeros=True), dtype=torch.float64)
    torch.testing.assert_close(found, w.double(), rtol=1 / 14, atol=0)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_group_with_an_infinity_is_nan(value, kind, dtype):
    w = random(2, 128, dtype=dtype)
    w[1, 5] = value
    found = numbers(*stored(w, *kind))
    assert found[0].isfinite().all()
    assert found[1, : kind[1] or 128].isnan().all()


def test_nothing_gives_nothing():
    w = torch.zeros(5, 64, dtype=torch.int8, device=DEVICE)
    scale = torch.ones(5, device=DEVICE)
    x = torch.zeros(2, 64, dtype=torch.bfloat16, device=DEVICE)
    assert kernels.matvec(x[:0], w, scale).shape == (0, 5)
    assert kernels.matvec(x, w[:0], scale[:0]).shape == (2, 0)
    assert not kernels.matvec(x[:, :0], w[:, :0], scale).any()


def test_what_does_not_fit_is_refused():
    x = torch.zeros(2, 128, dtype=torch.bfloat16, device=DEVICE)
    w, scale = kernels.quantize_weights(torch.ones(4, 128, device=DEVICE))
    for given, says in (
        ((x, w), "int4 have scales; found none"),
        ((x, w, scale[:, 0]), r"int4 of shape \[4, 128 / group\]"),
        ((x[:, :64], w, scale), r"\[N, K / 2\]; found \[2, 64\] and \[4, 64\]"),
        ((x.repeat(5, 1), w, scale), "at most 8 rows of x; found 10: use matmul"),
        ((x, w, scale, scale), "zero points as whole numbers"),
        ((x, x.half()), "without scales in torch.bfloat16"),
        ((x, x.clone().requires_grad_()), "no gradient with regard to weights"),
    ):
        with pytest.raises(ValueError, match=says):
            kernels.matvec(*given)
    with pytest.raises(TypeError, match="bfloat16 or float16; found float32"):
        kernels.matvec(x.float(), w, scale)
    with pytest.raises(ValueError, match="divide a row of 100 weights; found 64"):
        kernels.quantize_weights(torch.ones(2, 100), "int4", 64)
    with pytest.raises(ValueError, match="expected a form of int4, int8, fp8; found 'int3'"):
        kernels.quantize_weights(torch.ones(2, 64), "int3")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weights_are_rounded_to_the_nearest(kind):
    form, group, zeros = kind
    w = random(8, 256, scale=2)
    if form != "plain":
        codes = stored(w, *kind)
        groups = w.unflatten(1, (-1, group or 256))
        step = codes[1].reshape(8, -1, 1)
        off = (numbers(*codes).unflatten(1, (-1, group or 256)) - groups).abs()
        # A zero point is rounded itself, so that the end of the range may be a step and a half away.
        allowed = step * (1.0 if zeros else 0.5) if form != "fp8" else step * 2.0**-10 + groups.abs() * 2.0**-4
        assert (off <= allowed * 1.001).all()


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[-1]], ids=str)
def test_the_gradient_is_that_of_float64(kind):
    x = random(3, 256, dtype=torch.bfloat16, grad=True)
    w = stored(random(24, 256, dtype=torch.bfloat16, seed=1), *kind)
    dy = random(3, 24, dtype=torch.bfloat16, seed=2)
    (dx,) = torch.autograd.grad(kernels.matvec(x, *w), x, dy)
    near(dx, dy.double() @ numbers(*w, dtype=torch.float64), length=24)


def test_the_operator_keeps_pytorchs_rules():
    x = random(2, 64, dtype=torch.bfloat16, grad=True)
    w, scale, zero = stored(random(9, 64, dtype=torch.bfloat16, seed=1), "int4", 64, True)
    torch.library.opcheck(torch.ops.rooflab.matvec, (x, w, scale, zero))
    compiled = torch.compile(lambda x: thin_product(x * 2, w, scale, zero) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), thin_product(x * 2, w, scale, zero) + 1)


@counts
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[3], KINDS[4]], ids=str)
def test_weights_are_read_once_and_nothing_else_counts(kind):
    form, group, _ = kind
    rows, n, k = 2, 256, 1024
    x, w = random(rows, k, dtype=torch.bfloat16), stored(random(n, k, dtype=torch.bfloat16, seed=1), *kind)
    found = count(lambda: kernels.matvec(x, *w), world="triton")
    least = costs.quantized_linear(rows, k, n, "bf16", weights="bf16" if form == "plain" else form, group=group)
    again = (n // 32 - 1) * rows * k * 2  # of x, by each block of 32 rows of W: 64 and more on a GPU, from the cache
    assert not found.faults
    assert found.bytes_written == least.bytes_written
    assert found.bytes_read == least.bytes_read + again - (2 * n if form == "plain" else 0)


def test_ranges_cover_the_weights():
    for form in ("plain", "int8", "fp8", "int4"):
        for rows in (1, 8):
            for group in (0, 32, 128):
                for choice in blocks(form, rows, group):
                    assert not group or choice["KB"] % group == 0
                    steps, parts = splits(4096, 11008, choice, 132)
                    assert (parts - 1) * steps * choice["KB"] < 11008 <= parts * steps * choice["KB"]


@pytest.mark.parametrize("form", ["plain", "int8", "fp8"])
def test_what_was_measured_can_be_chosen(form):
    known = known_choices("NVIDIA H200", f"matvec_{form}")
    assert len(known) == 4
    assert all(choice in blocks(form, rows, 0) for (rows, *_), choice in known.items())


def registers_after(ptx, word):
    """Run the few instructions that the kernel has in PTX: four bytes in a word to four words of two numbers."""
    held = {"$4": word}

    def value(name):
        return int(name, 16) if name.startswith("0x") else int(name) if name.isdigit() else held[name]

    def fma(kind, *given):
        to = torch.bfloat16 if kind == "bf16x2" else torch.float16
        a, b, c = (torch.tensor([v & 0xFFFF, v >> 16]).to(torch.uint16).view(to).float() for v in given)
        low, high = (a * b + c).to(to).view(torch.uint16).tolist()
        return high << 16 | low

    for operation, told in re.findall(r"(mov|prmt|lop3|shr|fma)\S*? ([^;]+);", ptx):
        to, *given = (each.strip() for each in told.split(","))
        numbers = [value(each) for each in given]
        if operation == "prmt":
            bytes_of = [(each >> 8 * i) & 255 for each in numbers[:2] for i in range(4)]
            held[to] = sum(bytes_of[numbers[2] >> 4 * i & 7] << 8 * i for i in range(4))
        elif operation == "lop3":
            held[to] = numbers[0] & numbers[1] | (numbers[2] if numbers[3] == 0xEA else 0)
        elif operation == "fma":
            held[to] = fma(re.search(r"fma\.rn\.(\w+)", ptx).group(1), *numbers)
        else:
            held[to] = numbers[0] >> (numbers[1] if operation == "shr" else 0)
    return [held[f"${i}"] for i in range(4)]


@pytest.mark.parametrize(("name", "dtype"), [("_BF16", torch.bfloat16), ("_FP16", torch.float16)])
def test_the_ptx_makes_the_same_numbers(name, dtype):
    from rooflab.kernels.products import triton_matvec

    ptx = getattr(triton_matvec, name).value
    for first in range(0, 256, 4):
        four = [first, first + 1, 255 - first, first + 3]
        words = registers_after(ptx, sum(each << 8 * i for i, each in enumerate(four)))
        halves = torch.tensor([half for word in words for half in (word & 0xFFFF, word >> 16)])
        found = halves.to(torch.uint16).view(dtype).tolist()
        assert found == [each % 16 - 8 for each in four] + [each // 16 - 8 for each in four]


CODE = """
import json
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.products.builds import ENGINE, matvec
from rooflab.kernels.products.torch_matvec import blocks
told = {}
for form, rows, group, zeros in (
    ("plain", 1, 0, False), ("int8", 1, 0, False), ("fp8", 1, 0, False), ("int4", 1, 128, False),
    ("int4", 8, 128, False), ("int4", 1, 32, True),
):
    made = compile_for(matvec(form, ENGINE, rows=rows, group=group, zeros=zeros), "sm90")
    choice = blocks(form, rows, group)[0]
    codes = choice["R"] * choice["KB"] / 32 / choice["num_warps"]
    told[f"{form} {rows} {group}"] = [made.longest_loop() / codes, made.spill_bytes]
print(json.dumps(told))
"""


def test_the_instructions_of_a_code_leave_time_for_the_memory(tmp_path):
    """An H200 has 15.6 for a weight in bf16, 7.8 for one of 8 bits and 3.9 for one of 4 in the time of its bytes."""
    told = told_elsewhere(CODE, tmp_path)
    assert {name: spilled for name, (_, spilled) in told.items() if spilled} == {}
    taken = {name: round(each, 1) for name, (each, _) in told.items()}
    most = {"plain 1 0": 3.0, "int8 1 0": 4.2, "fp8 1 0": 4.2, "int4 1 128": 3.3, "int4 8 128": 4.0, "int4 1 32": 4.2}
    if SINCE_39:
        most |= {"int8 1 0": 7.6, "fp8 1 0": 4.9, "int4 1 128": 4.2, "int4 8 128": 5.2, "int4 1 32": 5.2}
    assert {name: each for name, each in taken.items() if each > most[name]} == {}
