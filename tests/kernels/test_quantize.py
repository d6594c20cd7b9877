"""Quantization against torch's casts and the formats' definitions, code by code."""

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels.quantize.formats import decode, unpack_fp4

from .agreement import DEVICE, SHORT, counts, random, torch
from .compiling import told_elsewhere

FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
SHAPES = [(1, 32), (3, 64), (2, 5, 96), (40, 32), (7, 1024)]


def nearest_fp4(x):
    """The nearest of the format's numbers, of two equally near ones the one with an even code."""
    size = x.abs().double().clamp(max=6.0)
    off = (size[..., None] - FP4.double()).abs()
    first = off.argmin(-1)
    second = (first + 1).clamp(max=7)
    tie = off.gather(-1, first[..., None]) == off.gather(-1, second[..., None])
    code = torch.where(tie[..., 0] & (first % 2 == 1), second, first)
    return FP4[code] * torch.where(torch.signbit(x), -1.0, 1.0)


def same(one, other):
    assert torch.equal(one.isnan(), other.isnan())
    assert torch.equal(one.nan_to_num(nan=7e9), other.nan_to_num(nan=7e9))


@pytest.fixture(params=[True, False], ids=["instruction", "whole numbers"])
def each_way(request, monkeypatch):
    """With the conversion that some chips have, and without it."""
    from rooflab.kernels.quantize import torch_quantize

    there = torch_quantize._constants(torch.zeros(1, device=DEVICE))["CONVERTS"]
    if request.param and not there:
        pytest.skip("This GPU has no instruction for e4m3.")
    monkeypatch.setattr(torch_quantize, "_constants", lambda x: {"CONVERTS": request.param})


def every_number(dtype):
    """In blocks of 32 over eight powers of two, so that each significand is there next to all kinds of larger ones."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    step = round(8 / torch.finfo(dtype).eps / 32)
    return torch.where(x.isfinite(), x, 0.0).reshape(-1, 32, step).transpose(1, 2).reshape(-1, 32)


@pytest.mark.usefixtures("each_way")
def test_every_number_of_bf16_becomes_the_code_that_torch_gives():
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16)
    one = torch.ones(1, device=DEVICE)
    codes, scale = kernels.quantize_fp8(x.to(DEVICE), one)
    right = x.float().clamp(-448, 448).to(torch.float8_e4m3fn)
    assert scale is one
    same(codes.cpu().float(), right.float())
    signs = codes.cpu().view(torch.uint8) >> 7
    assert torch.equal(signs[~x.isnan()], torch.signbit(x[~x.isnan()]).to(torch.uint8)), "zeros have signs too"


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 3, 33), (7, 1000)], ids=str)
def test_each_row_has_the_scale_that_makes_its_largest_448(shape, dtype):
    x = random(*shape, dtype=dtype, scale=20)
    codes, scales = kernels.quantize_fp8(x)
    assert (codes.dtype, codes.shape, scales.shape) == (torch.float8_e4m3fn, x.shape, x.shape[:-1])
    torch.testing.assert_close(scales, x.float().abs().amax(-1) / 448, rtol=2e-7, atol=0)
    same(codes.float(), (x.float() / scales[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).float())
    assert bool(
        ((decode(codes, scales, "fp8") - x.float()).abs() <= x.float().abs() / 16 + scales[..., None] / 512).all()
    )


def test_rows_of_zeros_and_of_infinities():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[0.0, 0.0], [1.0, inf], [nan, 2.0]], device=DEVICE)
    codes, scales = kernels.quantize_fp8(x)
    assert scales.tolist()[:2] == [1.0, inf]
    assert codes.float()[0].tolist() == [0.0, 0.0]
    assert codes.float()[1].isnan().tolist() == [False, True]
    assert codes.float()[2].isnan().tolist() == [True, False]


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", ["mxfp8", "mxfp4"])
def test_blocks_have_the_powers_of_two_of_the_specification(form, shape, dtype):
    x = random(*shape, dtype=dtype, scale=30) * random(*shape, dtype=dtype, seed=1).exp()
    codes, scales = kernels.quantize_mx(x, form)
    blocks = x.float().cpu().unflatten(-1, (-1, 32))
    _, exponent = torch.frexp(blocks.abs().amax(-1))
    right = 2.0 ** (exponent - 1 - (2 if form == "mxfp4" else 8)).double()
    assert scales.dtype == torch.float8_e8m0fnu
    assert torch.equal(scales.cpu().float().double(), right)
    scaled = blocks.double() / right[..., None]
    wanted = nearest_fp4(scaled) if form == "mxfp4" else scaled.float().clamp(-448, 448).to(torch.float8_e4m3fn).float()
    found = unpack_fp4(codes).cpu() if form == "mxfp4" else codes.cpu().float()
    same(found.reshape(wanted.shape), wanted.float())
    back = decode(codes.cpu(), scales.cpu(), form)
    assert bool(
        (
            (back - x.cpu().float()).abs()
            <= x.cpu().float().abs().unflatten(-1, (-1, 32)).amax(-1, keepdim=True).expand_as(blocks).flatten(-2) / 3
        ).all()
    )


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("form", ["mxfp8", "mxfp4"])
def test_every_number_of_16_bits_becomes_the_nearest_one_in_its_block(form, dtype):
    x = every_number(dtype)
    codes, scales = kernels.quantize_mx(x.to(DEVICE), form)
    scaled = x.double() / scales.cpu().float().double()
    wanted = nearest_fp4(scaled) if form == "mxfp4" else scaled.float().clamp(-448, 448).to(torch.float8_e4m3fn).float()
    found = unpack_fp4(codes).cpu() if form == "mxfp4" else codes.cpu().float()
    same(found, wanted)
    assert torch.equal(torch.signbit(found), torch.signbit(x)), "zeros have signs too"


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_ties_of_nvfp4_are_seen_through_the_rounding_of_the_scale(dtype):
    """Of a block whose scale is c, c times a tie is one, whatever the reciprocal of c is rounded to."""
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0])
    numbers = torch.cat([ties, -ties])
    scales = torch.arange(8, 16, dtype=torch.float32) / 8
    x = (scales[:, None] * numbers).to(dtype)
    codes, found = kernels.quantize_nvfp4(x.to(DEVICE), torch.ones(1, device=DEVICE))
    assert torch.equal(found.cpu().float()[:, 0], scales)
    assert torch.equal(unpack_fp4(codes).cpu(), nearest_fp4(numbers).expand(8, -1))


@pytest.mark.usefixtures("each_way")
def test_what_nvfp4_has_no_code_for():
    inf, nan = float("inf"), float("nan")
    x = torch.zeros(3, 16, device=DEVICE)
    x[0, :3] = torch.tensor([nan, 1.0, -1.0])
    x[1, :3] = torch.tensor([1e6, -1e6, 448.0])  # more than 448 units of 6
    x[2, :3] = torch.tensor([inf, -inf, 448.0])
    codes, scales = kernels.quantize_nvfp4(x, torch.ones(1, device=DEVICE))
    assert scales.float()[1:, 0].tolist() == [448.0, 448.0]
    found = unpack_fp4(codes).cpu()
    assert found[0, :4].abs().tolist() == [6.0, 6.0, 6.0, 0.0]
    for row in found[1:]:
        assert row[:4].tolist() == [6.0, -6.0, 1.0, 0.0]


def test_a_block_that_is_small_beyond_reciprocals_keeps_its_zeros():
    x = torch.zeros(1, 16, device=DEVICE)
    x[0, 3] = 6e-40
    codes, _ = kernels.quantize_nvfp4(x, torch.full((1,), 1e-40, device=DEVICE))
    found = unpack_fp4(codes).cpu()[0].tolist()
    assert found[:3] + found[4:] == [0.0] * 15


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("form", ["mxfp8", "mxfp4"])
def test_special_blocks(form):
    inf, nan = float("inf"), float("nan")
    x = torch.zeros(6, 32, device=DEVICE)
    x[1, 3], x[2, 4], x[3] = nan, inf, 3e38
    x[4, 5] = 1e-40  # below what a power of two of 8 bits reaches
    x[5, 0], x[5, 1] = 2.0**-126, -(2.0**-127)
    codes, scales = kernels.quantize_mx(x, form)
    found = scales.float()[:, 0]
    assert found.isnan().tolist() == [False, True, True, False, False, False]
    assert found[0] == found[4] == 2.0**-127
    if form == "mxfp8":
        assert bool(codes.float()[1].isnan().all()), "nothing of such a block can be known"
        assert codes.float()[3].unique().tolist() == [448.0], "3e38 is 1.76 times the largest power of two: too large"
    back = decode(codes, scales, form)
    assert back[0].abs().max() == 0


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nvfp4_has_scales_of_8_bits(shape, dtype):
    x = random(*shape, dtype=dtype, scale=30)
    unit = (x.float().abs().max() / (448 * 6)).reshape(1)
    codes, scales = kernels.quantize_nvfp4(x, unit)
    blocks = x.float().unflatten(-1, (-1, 16))
    right = (blocks.abs().amax(-1) / 6.0 / unit).clamp(max=448).to(torch.float8_e4m3fn)
    same(scales.float(), right.float())
    scaled = blocks / (right.float() * unit)[..., None]
    found = unpack_fp4(codes).reshape(scaled.shape).cpu()
    wanted = nearest_fp4(scaled.cpu())
    assert float((found != wanted).float().mean()) < 1e-3, "a division may round a tie to the other side"
    off = (decode(codes, scales, "nvfp4", unit) - x.float()).abs().unflatten(-1, (-1, 16))
    assert bool((off <= blocks.abs().amax(-1, keepdim=True) / 5 + 1e-6).all())


@pytest.mark.usefixtures("each_way")
def test_an_empty_block_in_nvfp4_is_zero():
    x = torch.zeros(2, 16, device=DEVICE)
    x[1] = 5.0
    codes, scales = kernels.quantize_nvfp4(x, torch.full((1,), 5.0 / 2688, device=DEVICE))
    assert scales.float()[:, 0].tolist() == [0.0, 448.0]
    torch.testing.assert_close(decode(codes, scales, "nvfp4", 5.0 / 2688), x)


@pytest.mark.parametrize("shape", [(0, 32), (3, 0)], ids=str)
def test_what_is_empty_stays_empty(shape):
    x = torch.zeros(shape, device=DEVICE)
    assert kernels.quantize_fp8(x)[0].shape == shape
    assert kernels.quantize_mx(x)[1].shape == (shape[0], shape[1] // 32)
    assert kernels.quantize_nvfp4(x, torch.ones(1, device=DEVICE))[0].shape == (shape[0], shape[1] // 2)


def test_strides_of_any_kind():
    x = random(64, 64)
    for view in (x.t(), x[::2], x[:, ::2]):
        for function in (kernels.quantize_fp8, kernels.quantize_mx):
            same(function(view)[0].float(), function(view.contiguous())[0].float())


@counts
def test_no_byte_is_moved_in_vain():
    x, unit = random(8, 128, dtype=torch.bfloat16), torch.ones(1)
    for call, written in (
        (lambda: kernels.quantize_fp8(x), 8 * 128 + 4 * 8),
        (lambda: kernels.quantize_fp8(x, unit), 8 * 128),
        (lambda: kernels.quantize_mx(x), 8 * 128 + 8 * 4),
        (lambda: kernels.quantize_mx(x, "mxfp4"), 8 * 64 + 8 * 4),
        (lambda: kernels.quantize_nvfp4(x, unit), 8 * 64 + 8 * 8),
    ):
        found = count(call, world="triton")
        assert (found.bytes_written, found.launches, found.faults) == (written, 1, ())
        assert 2 * 8 * 128 <= found.bytes_read <= 2 * 8 * 128 + 4 * found.programs


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: kernels.quantize_mx(torch.zeros(2, 33)), ValueError, r"that 32 divides; found the shape \(2, 33\)"),
        (lambda: kernels.quantize_mx(torch.zeros(2, 32), "mxfp6"), ValueError, "expected form 'mxfp8' or 'mxfp4'"),
        (lambda: kernels.quantize_mx(torch.zeros(32).long()), TypeError, "x is int64"),
        (lambda: kernels.quantize_fp8(torch.zeros(2, 3), torch.ones(2)), ValueError, "scale of one element"),
        (lambda: kernels.quantize_fp8(torch.zeros(2, 3), torch.ones(1).double()), ValueError, "in torch.float64"),
        (lambda: kernels.quantize_nvfp4(torch.zeros(2, 8), torch.ones(1)), ValueError, "that 16 divides"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_a_sentence(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_torch_takes_them_for_operators():
    from rooflab.kernels.quantize import torch_quantize

    x = random(4, 64)
    torch.library.opcheck(torch_quantize.fp8_of_rows, (x,))
    torch.library.opcheck(torch_quantize.fp8_of_tensor, (x, torch.ones(1, device=DEVICE)))
    torch.library.opcheck(torch_quantize.mx, (x, True))
    torch.library.opcheck(torch_quantize.nvfp4, (x, torch.ones(1, device=DEVICE)))


# This process interprets kernels, so another one compiles them.
COMPILED = """
import json, re
from rooflab.kernels.compiled import compile_for, count_instructions
from rooflab.kernels.quantize.builds import builds
told = {}
for name, build in builds().items():
    made = compile_for(build, build.chips[0])
    values = build.constants
    numbers = values.get("COLS") or values.get("BLOCK") or values["BLOCKS"] * (16 if "nvfp4" in name else 32)
    each = numbers / (32 * build.warps)
    converted = 2 * sum(count_instructions(made.text, ("cvt.rn.satfinite.e4m3x2.f32",)).values()) / each
    kept = "max.NaN.f32" in made.text["ptx"]
    told[name] = converted, kept, len(re.findall(r"/\\*[0-9a-f]{4}\\*/", made.text["sass"])) / each
print(json.dumps(told))
"""


def test_chips_with_an_instruction_for_e4m3_use_it_two_numbers_at_a_time(tmp_path):
    """And instructions stay few: an H200 has time for 25 a number."""
    pytest.importorskip("triton", reason="needs Triton")
    told = told_elsewhere(COMPILED, tmp_path)
    for name, (converted, kept, instructions) in told.items():
        if "_words" in name:  # those of test_quantize_words.py
            continue
        assert kept or not name.startswith("mx"), "the largest number of a block is to be NaN, which is not interpreted"
        if name.endswith("_plain"):
            assert converted == 0, name
        else:
            assert 1 <= converted <= 1.5, name  # the scales of blocks in NVFP4 are in e4m3, too
            assert instructions < (19 if name.endswith("fp4") else 10), name


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("scale", [0.0, -0.0, -2.0, float("nan")])
def test_a_scale_that_is_not_above_zero_leaves_nothing_but_nan(scale):
    x, scale = random(2, 16), torch.tensor(scale, device=DEVICE)
    x[0, 0] = 0.0
    assert kernels.quantize_fp8(x, scale)[0].float().isnan().all()
    codes, scales = kernels.quantize_nvfp4(x, scale)
    assert decode(codes, scales, "nvfp4", scale).isnan().all()
