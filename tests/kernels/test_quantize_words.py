"""Codes of 4 bits made two numbers at a time: the text of the instructions is carried out, and they are counted."""

from types import SimpleNamespace

import pytest

from rooflab import kernels
from rooflab.kernels.quantize import torch_quantize
from rooflab.kernels.quantize.formats import unpack_fp4

from . import ptx_words
from .agreement import DEVICE, counts, random, torch
from .compiling import told_elsewhere
from .test_quantize import nearest_fp4

EVERY = torch.arange(-(2**15), 2**15, dtype=torch.int16)
UNITS = (1.0, 0.02, 3.0, 2.0**-40, 1.7e-28, 9.9e29, 1e-33, 1e35)
SPREAD = [2.0**exponent for exponent in range(-20, 16)]


@pytest.fixture
def in_words(monkeypatch):
    """The kernels of words, on a GPU as they are, elsewhere interpreted; there the texts that were carried out."""
    if DEVICE == "cuda":
        if not torch_quantize._in_words(torch.zeros(8, dtype=torch.bfloat16, device=DEVICE)):
            pytest.skip("This GPU has no instructions for pairs of bf16.")
        return None
    monkeypatch.setattr(torch_quantize, "_in_words", lambda x: x.dtype == torch.bfloat16)
    return ptx_words.install(monkeypatch)


def with_larger(exponents):
    """All numbers of bf16, 31 in a block with one that is so many powers of two above the first of them."""
    room = torch.zeros(-len(EVERY) % 31, dtype=torch.int16)
    x = torch.cat([EVERY, room]).reshape(-1, 31)
    exponent = ((x[:, :1].int() >> 7 & 255) + exponents).clamp(0, 254)
    return torch.cat([x, (exponent << 7).short()], 1).view(torch.bfloat16)


def plainly(call, x, *more):
    """What the kernels of single numbers say."""
    there, torch_quantize._in_words = torch_quantize._in_words, lambda x: False
    try:
        return call(x, *more)
    finally:
        torch_quantize._in_words = there


def same_bytes(one, other):
    assert torch.equal(one.view(torch.uint8).cpu(), other.view(torch.uint8).cpu())


def near_scales(found, quotient):
    """Each is the nearest number of e4m3, but for quotients that are ties up to the rounding of fp32."""
    quotient, found = quotient.cpu().clamp(max=448.0), found.cpu().float().double()
    numbers = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    off = (quotient - numbers).abs().amin(1, keepdim=True)
    assert bool(((quotient - found).abs() <= off + quotient * 2.0**-20).all())
    right = quotient.float().to(torch.float8_e4m3fn).double()
    assert float((found != right).double().mean()) < 2e-3


@pytest.mark.parametrize("exponents", [0, 1, 2, 3, 4, 5, 40])
def test_every_number_of_bf16_has_the_code_in_mxfp4_that_it_has_alone(in_words, exponents):
    x = with_larger(exponents)
    codes, scales = kernels.quantize_mx(x.to(DEVICE), "mxfp4")
    found, powers = unpack_fp4(codes).cpu(), scales.cpu().float()
    known = ~powers.isnan()[:, 0]
    assert 0 < int((~known).sum()) < 30
    assert bool((codes[~known] == 0x77).all()), "nothing of such a block can be known"
    right, scale = plainly(kernels.quantize_mx, x.to(DEVICE), "mxfp4")
    same_bytes(scales, scale)
    same_bytes(codes[known], right[known])
    wanted = nearest_fp4(x[known].double() / powers[known].double())
    assert torch.equal(found[known], wanted.float())
    assert torch.equal(torch.signbit(found[known]), torch.signbit(x[known])), "zeros have signs too"
    assert in_words is None or {"fma.rn.bf16x2", "max.NaN.bf16x2"} <= met(in_words)


def met(asms):
    return {line.split()[0] for asm in asms for line in asm.splitlines() if line.startswith("    ")}


@pytest.mark.parametrize("number", [float("nan"), float("-inf"), 1e-40, -3e38])
def test_a_special_number_is_seen_wherever_it_stands(in_words, number):
    x = torch.zeros(33, 32, dtype=torch.bfloat16)
    x[range(32), range(32)] = number
    x = x.to(DEVICE)
    codes, scales = kernels.quantize_mx(x, "mxfp4")
    right, scale = plainly(kernels.quantize_mx, x, "mxfp4")
    same_bytes(scales, scale)
    assert scales.float()[:, 0].isnan().tolist() == [not abs(number) < 4e38] * 32 + [False]
    same_bytes(unpack_fp4(codes).abs(), unpack_fp4(right).abs())
    if abs(number) < 4e38:
        same_bytes(codes, right)


@pytest.mark.parametrize("unit", UNITS)
def test_every_number_of_bf16_has_the_nearest_code_in_nvfp4(in_words, unit):
    """Of a quotient so near to a tie that it differs by the rounding of sums to 2^-16, either one."""
    every = EVERY.view(torch.bfloat16).float().reshape(-1, 16)
    every[:, ::2].nan_to_num_(nan=1.0)
    spread = random(1024, 16).cpu() * torch.tensor(SPREAD).repeat(29)[:1024, None] * unit
    x = torch.cat([every, spread]).bfloat16().to(DEVICE)
    given = torch.full((1,), unit, device=DEVICE)
    codes, scales = kernels.quantize_nvfp4(x, given)
    right, scale = plainly(kernels.quantize_nvfp4, x, given)
    largest = x.float().nan_to_num(nan=0.0, posinf=float("inf"), neginf=float("-inf")).abs().amax(1, keepdim=True)
    near_scales(scales, largest.double() / 6 / given.double())
    x, s, found = x.cpu(), scales.cpu().float().double() * float(given), unpack_fp4(codes).cpu()
    usable = (s > 0)[:, 0] & x.isfinite().all(1)
    quotient = x[usable].double() / s[usable]
    wanted, found_there = nearest_fp4(quotient), found[usable]
    other = wanted != found_there
    tie = (wanted + found_there) / 2
    assert bool(((quotient - tie).abs()[other] <= 2**-15).all())
    assert float(other.float().mean()) < 3e-3
    assert torch.equal(torch.signbit(found[usable]), torch.signbit(x[usable])), "zeros have signs too"
    differs = (unpack_fp4(right).cpu() != found)[usable & (scales == scale)[:, 0].cpu()]
    assert float(differs.float().mean()) < 3e-3
    assert not found[(s == 0) & ~x.isnan()].any()
    nan = x.isnan() & ~x.isnan().all(1, keepdim=True) & (s > 0)
    assert bool((found[nan].abs() == 6).all())


def test_ties_in_nvfp4_are_seen_through_the_rounding_of_the_scale(in_words):
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0])
    numbers = torch.cat([ties, -ties])
    scales = torch.arange(8, 16, dtype=torch.float32) / 8
    x = (scales[:, None] * numbers).bfloat16()
    for unit in (1.0, 2.0**-30, 2.0**20):
        codes, found = kernels.quantize_nvfp4((x * unit).to(DEVICE), torch.full((1,), unit, device=DEVICE))
        assert torch.equal(found.cpu().float()[:, 0], scales)
        assert torch.equal(unpack_fp4(codes).cpu(), nearest_fp4(numbers).expand(8, -1))


@pytest.mark.parametrize("unit", [0.0, -1.0, float("nan"), float("inf"), 1e-40, 1e-29, 1e31])
def test_units_beyond_the_usual_are_left_to_the_kernel_of_single_numbers(in_words, unit):
    x = (random(4, 64) * (abs(unit) if 0 < abs(unit) < 1e36 else 1.0)).bfloat16()
    x[0, 0] = float("inf")
    given = torch.full((1,), unit, device=DEVICE)
    found, right = kernels.quantize_nvfp4(x, given), plainly(kernels.quantize_nvfp4, x, given)
    same_bytes(found[0], right[0])
    same_bytes(found[1], right[1])
    assert in_words == [] or in_words is None


def test_what_nvfp4_cannot_hold_becomes_6_times_the_largest_scale(in_words):
    inf, nan = float("inf"), float("nan")
    x = torch.zeros(3, 16, dtype=torch.bfloat16, device=DEVICE)
    x[0, :3] = torch.tensor([nan, 1.0, -1.0])
    x[1, :3] = torch.tensor([1e6, -1e6, 448.0])
    x[2, :3] = torch.tensor([inf, -inf, 448.0])
    codes, scales = kernels.quantize_nvfp4(x, torch.ones(1, device=DEVICE))
    assert scales.float()[1:, 0].tolist() == [448.0, 448.0]
    found = unpack_fp4(codes).cpu()
    assert found[0, :4].abs().tolist() == [6.0, 6.0, 6.0, 0.0]
    assert found[1:, :4].tolist() == [[6.0, -6.0, 1.0, 0.0]] * 2


@pytest.mark.parametrize("blocks", [1, 3, 129, 300])
def test_programs_end_where_the_blocks_end(in_words, blocks):
    x = random(blocks, 32, scale=30).bfloat16()
    unit = torch.full((1,), 0.125, device=DEVICE)
    for call, more in ((kernels.quantize_mx, "mxfp4"), (kernels.quantize_nvfp4, unit)):
        for one, other in zip(call(x, more), plainly(call, x, more), strict=True):
            same_bytes(one, other)


@pytest.mark.parametrize(
    ("dtype", "device", "place", "capability", "there"),
    [
        (torch.bfloat16, "cuda", 64, (8, 0), True),
        (torch.bfloat16, "cuda", 62, (9, 0), False),  # a word would not begin at a multiple of four bytes
        (torch.bfloat16, "cuda", 64, (7, 5), False),
        (torch.bfloat16, "cpu", 64, (9, 0), False),
        (torch.float16, "cuda", 64, (9, 0), False),
    ],
)
def test_words_are_taken_where_they_can_be(monkeypatch, dtype, device, place, capability, there):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda of: capability)
    monkeypatch.setattr(torch.version, "hip", None)
    x = SimpleNamespace(dtype=dtype, device=SimpleNamespace(type=device), data_ptr=lambda: place)
    monkeypatch.setattr(torch_quantize, "interpreting", lambda: True)
    assert not torch_quantize._in_words(x), "assembly is not interpreted"
    monkeypatch.setattr(torch_quantize, "interpreting", lambda: False)
    assert torch_quantize._in_words(x) == there
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert not torch_quantize._in_words(x)


@counts
def test_instructions_are_carried_out_as_they_are_defined():
    def words(*numbers):
        return ptx_words.np.array(numbers, ptx_words.np.uint32)

    def of(asm, *values):
        return [hex(each) for each in ptx_words.run(asm, [words(value) for value in values])]

    assert of("prmt.b32 $0, $1, $2, 0xFBD9;", 0x80FF7F00, 0x017F8001) == ["0xffff00"]  # signs
    assert of("prmt.b32 $0, $1, $2, 0x6240;", 0x04030201, 0x08070605) == ["0x7030501"]
    assert of("lop3.b32 $0, $1, $2, $3, 0xF8;", 0xF0, 0xCC, 0xAA) == ["0xf8"]
    assert of("cvt.rn.bf16x2.f32 $0, $1, $2;", 0x3F808000, 0x3F818000) == ["0x3f803f82"]  # ties to even
    assert of("max.NaN.bf16x2 $0, $1, $2;", 0x7FC03F80, 0x00004000) == ["0x7fff4000"]
    assert of("min.bf16x2 $0, $1, $2;", 0x7FC03F80, 0x40004000) == ["0x40003f80"]
    assert of("mad.lo.u32 $0, $1, 16, $2;", 0x10000001, 5) == ["0x15"]


# This process interprets kernels, so another one compiles them.
COMPILED = """
import json, re
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.quantize.builds import builds
told = {}
for name, build in builds().items():
    if "_words" in name:
        for chip in build.chips:
            made = compile_for(build, chip)
            numbers = build.constants["BLOCKS"] * (16 if "nvfp4" in name else 32) / (32 * build.warps)
            first = made.text["sass"].partition(" EXIT")[0]
            told[f"{name} {chip}"] = len(re.findall(r"/\\*[0-9a-f]{4}\\*/", first)) / numbers, made.spill_bytes
print(json.dumps(told))
"""


def test_instructions_are_few(tmp_path):
    """Up to the first exit: what stands behind it in NVFP4 is the way of units beyond the usual."""
    told = told_elsewhere(COMPILED, tmp_path)
    assert {name.split()[1] for name in told} == {"sm80", "sm90", "sm100"}
    for name, (instructions, spilled) in told.items():
        assert spilled == 0
        most = 10.5 if name.startswith("mxfp4") else 17.5 if name.endswith("sm80") else 15
        assert instructions < most, (name, instructions)
