"""Gradients of norms over rows that are read twice, and the sums over all programs; chips that launch ahead of time."""

import itertools
from types import SimpleNamespace

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels import tuning
from rooflab.kernels.launching import launch
from rooflab.kernels.rows import blocks
from rooflab.kernels.rows.triton_norm import add_partial_sums_kernel

from .agreement import DEVICE, agree, counts, gradients, near, random, row_functions, torch
from .compiling import told_elsewhere

COLS = 8200  # of 16,384 in blocks: the last ones are empty


@pytest.fixture
def chosen():
    """Have the gradient use one of its choices."""

    def choose(wanted):
        tuning.set_tuner(
            lambda kernel, key, found, run: next(
                (one for one in found if kernel.endswith("norm_backward") and wanted.items() <= one.items()), found[0]
            )
        )

    yield choose
    tuning.set_tuner(None)


@pytest.mark.parametrize(("name", "dtype"), [("rms_norm", torch.bfloat16), ("layer_norm", torch.float32)], ids=str)
def test_gradients_of_long_rows_agree_with_float64(name, dtype):
    mine, reference, parameters = row_functions(name, COLS, dtype)
    agree(mine, reference, [random(5, COLS, dtype=dtype), *parameters], length=COLS)


@pytest.mark.parametrize(("name", "parts"), [("rms_norm", 2), ("rms_norm", 8), ("layer_norm", 4)])
def test_programs_share_the_columns(name, parts, chosen):
    chosen({"PARTS": parts})
    mine, reference, parameters = row_functions(name, COLS)
    x = random(3, COLS + 3)[:, 3:]
    agree(mine, reference, [x, *parameters], length=COLS)


def test_what_comes_along_the_residual_stream_is_added_to_long_rows():
    x, r, w, b = random(3, COLS), random(3, COLS, seed=1), random(COLS, seed=2), random(COLS, seed=3)
    dy = random(3, COLS, seed=4)

    def used(norm):
        return lambda *given: (lambda y, h: y + 2 * h)(*norm(*given))

    def reference(x, r, w, b):
        return torch.nn.functional.layer_norm(x + r, (COLS,), w, b), x + r

    _, found = gradients(used(kernels.add_layer_norm), (x, r, w, b), dy)
    _, right = gradients(used(reference), [each.double() for each in (x, r, w, b)], dy)
    for one, other in zip(found, right, strict=True):
        near(one, other, length=COLS)


@counts
@pytest.mark.parametrize(("name", "sums"), [("rms_norm", 1), ("layer_norm", 2)])
def test_long_rows_are_read_twice_and_without_a_fault(name, sums):
    rows, programs = 6, 2
    mine, _, parameters = row_functions(name, COLS)
    leaves = [each.requires_grad_() for each in (random(rows, COLS), *parameters)]
    y = mine(*leaves)
    found = count(lambda: torch.autograd.grad(y, leaves, torch.ones_like(y)), world="triton")
    assert (found.faults, found.launches) == ((), 2)
    assert found.bytes_written == 4 * COLS * (rows + sums * programs + sums)
    moved = 4 * COLS * (2 * 2 * rows + 2 * rows + sums * programs)  # x and dy; the weight; partial sums
    assert moved <= found.bytes_read <= moved + 4 * 2 * rows


@pytest.mark.parametrize("programs", [1, 9, 16])
@pytest.mark.parametrize("sums", [1, 2])
def test_partial_sums_are_added_up_in_turns(sums, programs):
    parts = random(sums, programs, 21)
    dw, db = torch.empty(2, 21, device=DEVICE)
    launch(add_partial_sums_kernel, (3, sums), dw, db, parts, programs, 21, PARTS=4, COLS=8, CHAINED=False)
    for found, right in zip((dw, db)[:sums], parts.double().sum(1), strict=True):
        near(found, right, length=programs)


@pytest.mark.parametrize(("cols", "sums"), [*itertools.product((16_384, 32_768, 65_536), (1, 2, 3))])
def test_sums_of_long_rows_take_half_of_the_registers(cols, sums):
    found = blocks.long_blocks(cols, sums)
    assert found
    for one in found:
        threads = 32 * one["num_warps"]
        assert cols % (one["PARTS"] * one["BLOCK"]) == 0
        assert sums * cols // one["PARTS"] // threads * threads * one["PER_SM"] <= 32_768


@pytest.mark.parametrize(
    ("kind", "capability", "hip", "interprets", "right"),
    [
        ("cuda", (9, 0), None, False, True),
        ("cuda", (12, 0), None, False, True),
        ("cuda", (8, 9), None, False, False),
        ("cuda", (9, 4), "6.4", False, False),
        ("cuda", (9, 0), None, True, False),
        ("cpu", None, None, False, False),
    ],
)
def test_chips_that_launch_ahead_of_time(kind, capability, hip, interprets, right, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(blocks, "interpreting", lambda: interprets)
    assert blocks.chained(SimpleNamespace(type=kind)) is right


def test_a_kernel_that_is_brought_ahead_of_time_waits_before_it_reads(tmp_path):
    """The wait has to stand before the first load, and rows that are fetched ahead need no registers."""
    code = (
        "import json\n"
        "from dataclasses import replace\n"
        "from rooflab.kernels.catalogue import find_build\n"
        "from rooflab.kernels.compiled import compile_for\n"
        "told = {}\n"
        "for name in ('add_partial_sums', 'layer_norm_backward', 'layer_norm_backward_long'):\n"
        "    build = find_build(name)\n"
        "    more = {'CHAINED': True, **({'AHEAD': True} if 'AHEAD' in build.constants else {})}\n"
        "    made = compile_for(replace(build, constants={**build.constants, **more}), 'sm90')\n"
        "    told[name] = [made.text['ptx'], made.spill_bytes]\n"
        "print(json.dumps(told))"
    )
    told = told_elsewhere(code, tmp_path)
    assert [spilled for _, spilled in told.values()] == [0, 0, 0]
    added, once, twice = (ptx for ptx, _ in told.values())
    assert 0 < added.find("griddepcontrol.wait") < added.find("ld.global")
    assert all(0 < ptx.find("griddepcontrol.launch_dependents") < ptx.find("ld.global") for ptx in (once, twice))
    assert twice.count("prefetch.global.L2") >= 2
    assert "prefetch" not in once
