"""Gradients over long rows whose programs exchange sums: launched, or run with NumPy, and their machine code."""

import threading
import time

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab.kernels.rows import blocks, rings, torch_norm
from rooflab.kernels.rows import triton_norm_exchange as norm_exchange
from rooflab.kernels.tuning import known_choices

from . import gluon_threads as threads
from .agreement import agree, random, row_functions, torch
from .compiling import told_elsewhere
from .gluon_rows import Copies, Machine, residual_is_added, run, take_over

HALF = torch.float16  # NumPy has it, too
KINDS = ["rms_norm_backward", "layer_norm_backward"]
CHOICE = {"PARTS": 2, "LEAD": 2, "BLOCK": 1024, "SLOTS": 4, "PER_SM": 2, "num_warps": 4}  # of rows of 2,048


@pytest.fixture
def on_hopper(monkeypatch):
    return take_over(monkeypatch)


@pytest.fixture
def impatient(monkeypatch):
    """Whoever waits in vain is found out soon."""
    monkeypatch.setattr(threads, "PATIENCE_S", 0.3)


@pytest.mark.parametrize("rows", [1, 2, 7, 13])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize(
    ("cols", "parts", "lead", "block", "slots"),
    [
        (4096, 2, 2, 2048, 6),
        (4000, 2, 1, 2048, 2),  # the last columns of the last block are outside
        (2608, 4, 2, 1024, 3),  # shares of 704 columns, and the last one of 496
        (2064, 4, 3, 1024, 5),
        (4096, 2, 2, 1024, 6),
        (4000, 2, 1, 512, 9),
    ],
)
def test_gradients_agree_with_float64(cols, parts, lead, block, slots, name, rows, on_hopper):
    wanted, seen = on_hopper
    wanted |= {"PARTS": parts, "LEAD": lead, "BLOCK": block, "SLOTS": slots, "PER_SM": 4, "num_warps": 4}
    mine, reference, parameters = row_functions(name, cols, HALF)
    x = random(rows, cols, dtype=HALF)
    x += 4 * torch.arange(rows)[:, None].to(x)  # each row has another mean
    agree(mine, reference, [x, *parameters], length=cols)
    ((grid, constants),) = seen
    assert grid[0] == parts
    assert -(-rows // grid[1]) == -(-rows // (8 // parts)), "as many programs as end together"
    assert constants["launch_cooperative_grid"]


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("cols", [8208, 16_384, 20_000, 32_768])
def test_rows_as_long_as_those_that_it_is_for(cols, name, on_hopper):
    wanted, seen = on_hopper
    wanted |= rings.exchange_blocks(f"{name}_backward", blocks.next_power_of_2(cols))[-1]
    mine, reference, parameters = row_functions(name, cols, HALF)
    agree(mine, reference, [random(2, cols, dtype=HALF), *parameters], length=cols)
    assert seen


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_in_bf16(name, on_hopper):
    wanted, seen = on_hopper
    wanted |= CHOICE
    mine, reference, parameters = row_functions(name, 2000, torch.bfloat16)
    agree(mine, reference, [random(5, 2000, dtype=torch.bfloat16), *parameters], length=2000)
    assert seen


def test_what_comes_along_the_residual_stream_is_added(on_hopper):
    """Also where rows lie apart, and with two blocks of columns for a program."""
    wanted, seen = on_hopper
    wanted |= CHOICE | {"BLOCK": 512, "SLOTS": 7}
    residual_is_added(2000, seen)


def launched(rows, programs, *, cooperative=True, x=None, dtype=HALF):
    """dx, the sums over rows that each program has kept, and the cells, after layer norm backward of 2,048 columns.

    Run with NumPy, on any machine.
    """
    x = random(rows, 2048, dtype=dtype).cpu() if x is None else x
    dy, w = random(rows, 2048, dtype=dtype, seed=1).cpu(), random(2048, dtype=dtype, seed=2).cpu()
    mean, rstd = x.float().mean(1), x.float().var(1).rsqrt()
    dx, cells = torch.full_like(x, 3.0), torch.full((rows, 2), -1)
    sums = torch.full((2, programs, 2048), 3.0)
    modes = {"RESIDUAL": False, "CENTRED": True, "BIAS": True, "CHAINED": False}
    sizes = {name: CHOICE[name] for name in ("PARTS", "LEAD", "BLOCK", "SLOTS")}
    run(
        norm_exchange, "norm_backward_exchange_kernel", (2, programs), dx, sums[0], sums[1], dy, dy, x, w, mean, rstd,
        rows, 2048, 2048, 2048, 2048, cells=cells, launch_cooperative_grid=cooperative, BLOCKS=1, **modes, **sizes,
    )  # fmt: skip
    return dx, sums, cells


def publishing(monkeypatch, late):
    """Have `late` called with a program's place before it writes its parts of a row's sums; False: it does not."""
    language = Machine.language

    def of(machine):
        gl = language(machine)
        write = gl.atomic_xchg
        gl.atomic_xchg = lambda *args, **more: None if late(machine.place) is False else write(*args, **more)
        return gl

    monkeypatch.setattr(Machine, "language", of)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_sum_that_comes_too_late_is_waited_for(slow, monkeypatch):
    """And results are the same, whoever is first."""
    right = launched(5, 1)
    waits = []
    look = Machine.look_again

    def counted(machine, pointer):
        waits.append(int(pointer.places) == machine.asked)
        return look(machine, pointer)

    monkeypatch.setattr(Machine, "look_again", counted)
    publishing(monkeypatch, lambda place: time.sleep(0.1 if place[0] == slow else 0.0))
    found = launched(5, 1)
    assert any(waits)
    assert all(torch.equal(one, other) for one, other in zip(found, right, strict=True))


def test_no_sum_is_there_when_programs_begin(on_hopper, monkeypatch):
    """Also where the memory was used before."""
    wanted, seen = on_hopper
    wanted |= CHOICE
    publishing(monkeypatch, lambda place: time.sleep(0.1 * float(place[0])))
    mine, reference, parameters = row_functions("layer_norm", 2000, HALF)
    agree(mine, reference, [random(3, 2000, dtype=HALF), *parameters], length=2000)
    assert seen


@pytest.mark.usefixtures("impatient")
def test_a_sum_that_never_comes_is_a_failure(monkeypatch):
    publishing(monkeypatch, lambda place: place[0] == 0)
    before = threading.active_count()
    with pytest.raises(TimeoutError, match="nobody writes"):
        launched(3, 1)
    assert threading.active_count() == before, "the others have ended, too"


@pytest.mark.usefixtures("impatient")
def test_programs_that_are_not_on_the_chip_together_would_wait_for_ever():
    with pytest.raises(TimeoutError, match="nobody writes"):
        launched(3, 1, cooperative=False)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16])
@pytest.mark.parametrize("column", [5, 2000])
def test_nan_is_not_taken_for_a_sum_that_is_not_there(column, dtype):
    """Not even one whose bits are all set."""
    x = random(4, 2048, dtype=dtype).cpu()
    right = launched(4, 1, x=x)
    x.view(torch.int16)[2, column] = -1
    dx, sums, cells = launched(4, 1, x=x)
    assert dx[2].isnan().all()
    assert torch.equal(dx[[0, 1, 3]], right[0][[0, 1, 3]])
    assert sums[0].isnan().any(0).sum() == 2048, "mean and deviation of the row are NaN"
    assert not (cells == -1).any()


def test_no_arithmetic_makes_what_stands_for_an_empty_cell():
    """NVIDIA's makes one NaN, and NumPy's keeps what came in, of which the last bits are zero in fp32."""
    halves = np.array([norm_exchange.EMPTY.value]).view(np.int32)
    assert np.isnan(halves.view(np.float32)).all()
    assert not np.isin(halves, 0x7FFFFFFF).any()
    every = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16)
    for dtype in (HALF, torch.bfloat16):
        wide = every.view(dtype).float().numpy()
        with np.errstate(all="ignore"):
            assert not np.isin((wide * 0.5 + wide).view(np.int32), halves).any()


def test_programs_without_a_row_keep_zeros():
    dx, sums, cells = launched(1, 3)
    assert not (dx == 3).all(0).any()
    assert not sums[:, 1:].any()
    assert sums[:, 0].any(1).all()
    assert cells.shape == (1, 2)


def test_what_is_not_waited_for_is_not_there(monkeypatch):
    monkeypatch.setattr(Copies, "wait_group", lambda self, outstanding: None)
    assert launched(2, 1)[0].isnan().all()


@pytest.mark.parametrize("kind", [*KINDS, "softmax_backward", "rms_norm"])
@pytest.mark.parametrize("cols", [8192, 16_384, 32_768, 65_536])
def test_every_choice_fits_into_a_multiprocessor(kind, cols):
    found = rings.exchange_blocks(kind, cols)
    assert bool(found) is (kind in KINDS and cols in (16_384, 32_768))
    for one in found:
        own = cols // one["PARTS"]
        assert own <= 8192
        assert one["SLOTS"] * one["BLOCK"] >= (one["LEAD"] + 1) * own
        assert one["BLOCK"] % (256 * one["num_warps"]) == 0  # every thread has 16 bytes of each block
        assert one["PER_SM"] * (4 * one["SLOTS"] * one["BLOCK"] + 2048) <= 228 * 1024
        ahead = one["SLOTS"] * one["BLOCK"] - (one["LEAD"] + 1) * own
        assert one["PER_SM"] * 4 * ahead >= 26_000  # bytes that are on their way


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cols", [16_384, 32_768])
def test_what_an_h200_chose_is_still_a_choice(kind, cols, monkeypatch):
    monkeypatch.setattr(torch_norm, "on_hopper", rings.whole_lines)
    rows, w = torch.zeros(1, cols, dtype=HALF), torch.zeros(cols, dtype=HALF)
    centred = kind == "layer_norm_backward"
    found = torch_norm._backward_blocks(cols, (rows, rows), w, centred=centred, biased=centred)
    assert known_choices("NVIDIA H200", kind)[(cols,)] in found
    assert all(one in found for one in rings.exchange_blocks(kind, cols))
    assert not all("SLOTS" in one for one in found)
    assert len(found) <= 12


CODE = """
import json
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.rows.builds import exchange_build
from rooflab.kernels.rows.rings import exchange_blocks
told = []
for kind, centred in (("rms_norm_backward", False), ("layer_norm_backward", True)):
    for cols in (16_384, 32_768):
        for one in exchange_blocks(kind, cols):
            modes = {"CENTRED": centred, "BIAS": centred, "CHAINED": True}
            for chip, fused in (("sm90", False), ("sm90", True), ("sm100", False)):
                made = compile_for(exchange_build(cols, one, RESIDUAL=fused, **modes), chip)
                ptx = made.text["ptx"]
                told.append({
                    "what": [kind, cols, chip, fused, one], "registers": made.registers, "spilled": made.spill_bytes,
                    "resident": made.resident(), "shared": made.shared_bytes,
                    "issued": made.longest_loop() * made.warps * one["PER_SM"] / 4,
                    "copies": ptx.count("cp.async.cg.shared.global"), "narrow": ptx.count("cp.async.ca"),
                    "looks": ptx.count("ld.volatile.global.b64"),
                    "writes": ptx.count("atom.global.gpu.relaxed.exch.b64"),
                })
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return told_elsewhere(CODE, tmp_path_factory.mktemp("cache"))


def test_programs_that_wait_for_each_other_fit_onto_the_chip(compiled):
    """As many on a multiprocessor as are launched for it, by registers and shared memory."""
    for each in compiled:
        assert each["resident"] >= each["what"][4]["PER_SM"], each
        fused = each["what"][3]
        assert each["spilled"] <= 16 * fused, each  # an address or two


def test_the_instructions_of_a_row_leave_time_for_the_memory(compiled):
    """An H200 moves 48 KB, x, dy and dx of 8,192 columns, in 1.5 microseconds of a multiprocessor; dh makes it 2.0."""
    for each in compiled:
        _, _, chip, fused, _ = each["what"]
        if chip == "sm90":
            assert each["issued"] / 1.755e9 < 0.75 * (2.0e-6 if fused else 1.5e-6), each
            assert each["registers"] <= 255


def test_numbers_are_copied_16_bytes_at_a_time_and_exchanged_8(compiled):
    for each in compiled:
        parts, lead = each["what"][4]["PARTS"], each["what"][4]["LEAD"]
        assert each["copies"], each
        assert not each["narrow"], each
        assert each["looks"] == 2 * parts, each  # a glance, and a wait
        assert each["writes"] == lead + 1, each
