"""Gradients over long rows that are in Gluon: launched, or their source run with NumPy, and their machine code."""

from types import SimpleNamespace

import pytest

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.rows import blocks, rings, torch_norm
from rooflab.kernels.rows import triton_norm_hopper as norm_hopper
from rooflab.kernels.rows import triton_softmax_hopper as softmax_hopper

from .agreement import agree, random, row_functions, torch
from .compiling import told_elsewhere
from .gluon_rows import Copies, residual_is_added, run, take_over

HALF = torch.float16  # NumPy has it, too


@pytest.fixture
def on_hopper(monkeypatch):
    return take_over(monkeypatch)


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize(("parts", "slots"), [(1, 4), (1, 5), (1, 12), (2, 2), (2, 3), (2, 5), (4, 6)])
def test_gradients_of_norms_agree_with_float64(name, rows, parts, slots, on_hopper):
    cols = 4000  # of 4,096: the last columns of the last block are outside
    wanted, seen = on_hopper
    wanted |= {"PARTS": parts, "BLOCK": 1024, "SLOTS": slots, "PER_SM": 2, "num_warps": 4}
    mine, reference, parameters = row_functions(name, cols, HALF)
    agree(mine, reference, [random(rows, cols, dtype=HALF), *parameters], length=cols)
    assert {grid for grid, _ in seen} == {(parts, min(rows, 4 // parts))}


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax"])
def test_gradients_in_bf16(name, on_hopper):
    """Whose numbers become those of fp32 by instructions of their own."""
    wanted, seen = on_hopper
    wanted |= {"PARTS": 1, "BLOCK": 1024, "SLOTS": 4, "PER_SM": 2, "num_warps": 4}
    mine, reference, parameters = row_functions(name, 4000, torch.bfloat16)
    agree(mine, reference, [random(3, 4000, dtype=torch.bfloat16), *parameters], length=4000)
    assert seen


@pytest.mark.parametrize(
    ("cols", "choice"),
    [(4000, {"PARTS": 2, "BLOCK": 1024, "SLOTS": 3, "PER_SM": 1}), (1024, {"ROWS": 4, "PER_SM": 1})],
    ids=["in a ring", "a warp to a row"],
)
def test_what_comes_along_the_residual_stream_is_added(cols, choice, on_hopper):
    """Also where rows lie apart."""
    wanted, seen = on_hopper
    wanted |= choice | {"num_warps": 4}
    residual_is_added(cols, seen)


@pytest.mark.parametrize("rows", [1, 4, 11])  # of four warps of two multiprocessors
@pytest.mark.parametrize("cols", [1024, 976, 512, 336])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16])
def test_gradients_of_short_rows_agree_with_float64(dtype, name, cols, rows, on_hopper):
    wanted, seen = on_hopper
    wanted |= {"ROWS": 4, "PER_SM": 1, "num_warps": 4}
    mine, reference, parameters = row_functions(name, cols, dtype)
    agree(mine, reference, [random(rows, cols, dtype=dtype), *parameters], length=cols)
    assert {grid for grid, _ in seen} == {(min(2, -(-rows // 4)),)}


@pytest.mark.parametrize("cols", [128, 256, 512, 1024, 2048])
def test_warps_have_short_rows_only(cols, monkeypatch):
    monkeypatch.setattr(torch_norm, "on_hopper", rings.whole_lines)
    for dtype in (HALF, torch.float32):
        rows, w = torch.zeros(1, cols, dtype=dtype), torch.zeros(cols, dtype=dtype)
        found = torch_norm._backward_blocks(cols, (rows, rows), w, centred=True, biased=True)
        of_warps = [one for one in found if "STAGES" not in one]
        assert bool(of_warps) is (dtype == HALF and 256 <= cols <= 1024)
        assert found[0] not in of_warps, "what every chip can do comes first"
        assert all(one["ROWS"] == one["num_warps"] for one in of_warps)


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("slots", [4, 7, 12])
def test_gradients_of_softmax_agree_with_float64(rows, slots, on_hopper):
    wanted, seen = on_hopper
    wanted |= {"PARTS": 1, "BLOCK": 1024, "SLOTS": slots, "PER_SM": 1, "num_warps": 4}
    mine, reference, _ = row_functions("softmax", 4000, HALF)
    agree(mine, reference, [random(rows, 4000, dtype=HALF)], length=4000)
    assert seen


@pytest.mark.parametrize("late", ["norm", "softmax"])
def test_what_is_not_waited_for_is_not_there(late, monkeypatch):
    """The model of the copies, which is on the CPU, finds a wait that is missing."""
    monkeypatch.setattr(Copies, "wait_group", lambda self, outstanding: None)
    y, dx = random(2, 1024, dtype=HALF).cpu(), torch.zeros(2, 1024, dtype=HALF)
    sizes = {"BLOCK": 1024, "BLOCKS": 1, "SLOTS": 2}
    if late == "softmax":
        run(softmax_hopper, "softmax_backward_hopper_kernel", (1, 1), dx, y, y, 2, 1024, 1024, **sizes)
    else:
        modes = {"RESIDUAL": False, "CENTRED": False, "BIAS": False, "CHAINED": False}
        one, parts = torch.ones(2), torch.zeros(1, 1024)
        run(
            norm_hopper, "norm_backward_hopper_kernel", (1, 1), dx, parts, parts, y, y, y, y[0].clone(), one, one, 2,
            1024, 1024, 1024, 1024, PARTS=1, **sizes, **modes,
        )  # fmt: skip
    assert dx.isnan().all()


def test_only_whole_lines_are_copied():
    x = torch.zeros(4, 64, dtype=HALF)
    assert rings.whole_lines(x, x[:, 16:48], x[0])
    assert not rings.whole_lines(x, x.float())
    assert not rings.whole_lines(x[:, 8:])  # 56 columns
    assert not rings.whole_lines(x[:, 1:33])
    assert not rings.whole_lines(torch.zeros(4, 40, dtype=HALF)[:, :32])


@pytest.fixture
def asked_anew():
    """What is known of a device is what a test pretends."""
    rings._able.cache_clear()
    yield
    rings._able.cache_clear()


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize(("shared", "right"), [(227 * 1024, True), (99 * 1024, False)])
def test_only_chips_with_that_much_shared_memory(shared, right, monkeypatch):
    monkeypatch.setattr(rings, "chained", lambda device: True)
    told = SimpleNamespace(shared_memory_per_block_optin=shared)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: told)
    assert rings.on_hopper(torch.zeros(2, 32, dtype=HALF)) is right
    assert not rings.on_hopper(torch.zeros(2, 32))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: pytest.fail("asked again"))
    assert rings.on_hopper(torch.zeros(2, 32, dtype=HALF)) is right
    rings._able.cache_clear()
    monkeypatch.setattr(rings, "chained", lambda device: False)
    assert not rings.on_hopper(torch.zeros(2, 32, dtype=HALF))


@pytest.mark.parametrize("kind", ["rms_norm", "layer_norm", "softmax"])
@pytest.mark.parametrize("cols", [4096, 8192, 16_384, 32_768])
def test_every_choice_fits_into_shared_memory(kind, cols):
    found = rings.ring_blocks(f"{kind}_backward", cols)
    assert bool(found) is (kind != "softmax" or cols > blocks.LONG)
    for one in found:
        own = cols // one["PARTS"] // one["BLOCK"]
        assert 1 <= own <= one["SLOTS"]
        assert one["BLOCK"] % (256 * one["num_warps"]) == 0  # every thread has 16 bytes of each block
        held = 4 * one["SLOTS"] * one["BLOCK"] + (0 if kind == "softmax" else 2 * cols) + 1024
        assert one["PER_SM"] * held <= 228 * 1024
        ahead = one["SLOTS"] * one["PARTS"] - cols // one["BLOCK"]
        assert one["PER_SM"] * 4 * ahead * one["BLOCK"] >= 26_000 or one["PARTS"] > 1  # bytes that are on their way


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("cols", [64, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536])
def test_a_dozen_choices_are_enough(cols, centred, monkeypatch):
    """The plain kernels are among them, for chips and formats that have no ring."""
    monkeypatch.setattr(torch_norm, "on_hopper", rings.whole_lines)
    for dtype in (HALF, torch.float32):
        rows, w = torch.zeros(1, cols, dtype=dtype), torch.zeros(cols, dtype=dtype)
        found = torch_norm._backward_blocks(cols, (rows, rows), w, centred=centred, biased=centred)
        assert len(found) <= 12
        ringed = ["SLOTS" in one for one in found]
        assert any(ringed) is (dtype == HALF and 4096 <= cols <= 32_768)
        assert not all(ringed)
        assert ringed == sorted(ringed, reverse=cols > blocks.LONG), "long rows have the ring first"


@pytest.mark.parametrize(
    ("kind", "cols", "wanted"),
    [
        ("rms_norm", 1024, (4, 3, 2, 4)),
        ("layer_norm", 1024, (2, 3, 4, 2)),
        ("rms_norm", 4096, (2, 3, 1, 8)),
        ("layer_norm", 4096, (1, 3, 2, 8)),
        ("rms_norm", 8192, (1, 3, 1, 8)),
    ],
)
def test_what_an_h200_chose_is_among_the_choices(kind, cols, wanted):
    assert wanted in [tuple(one.values()) for one in blocks.loop_blocks(cols, 4 * cols)]


@pytest.mark.parametrize(("shares", "most", "programs"), [(4096, 132, 128), (8192, 132, 131), (5, 132, 5), (7, 0, 1)])
def test_programs_end_together(shares, most, programs):
    assert blocks.evenly(shares, most) == programs
    assert -(-shares // programs) == -(-shares // max(1, most))


CODE = """
import json
from dataclasses import replace
from rooflab.kernels.catalogue import find_build
from rooflab.kernels.compiled import compile_for
told = {}
for name in ("rms_norm_backward_hopper", "layer_norm_backward_hopper", "softmax_backward_hopper"):
    build = find_build(name)
    alone = {"PARTS": 1, "BLOCKS": 4} if "norm" in name else {}
    made = compile_for(replace(build, constants={**build.constants, **alone}), "sm90")
    ptx = made.text["ptx"]
    told[name] = [made.longest_loop() * made.warps / 4, made.spill_bytes, made.shared_bytes, ptx.count("cp.async.cg")]
print(json.dumps(told))
"""


def test_the_instructions_of_a_row_leave_time_for_the_memory(tmp_path):
    """An H200 moves the 96 KB of a row of 16,384, x, dy and dx, in 3.0 microseconds of a multiprocessor."""
    told = told_elsewhere(CODE, tmp_path)
    for name, (instructions, spilled, shared, copies) in told.items():
        assert instructions / 1.755e9 < 0.75 * 3.0e-6, name
        assert spilled <= 16, name  # a few addresses
        assert shared <= 227 * 1024, name
        assert copies, name
