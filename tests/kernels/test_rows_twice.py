"""Softmax and norms over rows that are read twice, in blocks; rows that are asked for before their program begins."""

import tomllib
from contextlib import contextmanager

import pytest

from rooflab import kernels
from rooflab.counters import count
from rooflab.kernels import tuning
from rooflab.kernels.rows import blocks, rings, torch_norm, torch_softmax

from .agreement import counts, near, random, row_functions, torch
from .compiling import told_elsewhere

COLS = 4100  # of 8,192: in blocks of 2,048 the last one has four numbers
HALF = [torch.bfloat16, torch.float16]


@contextmanager
def read_twice(block, rows):
    """Have each kernel over long rows read them twice, in blocks of as many columns, so many rows in a program."""
    wanted, taken = {"BLOCK": block} | ({} if rows == 1 else {"ROWS": rows}), []

    def choose(kernel, key, found, run):
        chosen = next((one for one in found if {**one, "num_warps": 0} == {**wanted, "num_warps": 0}), found[0])
        taken.append("BLOCK" in chosen)
        return chosen

    tuning.set_tuner(choose)
    try:
        yield
    finally:
        tuning.set_tuner(None)
    assert any(taken)


@pytest.fixture(params=[2048, 4096])
def block(request):
    with read_twice(request.param, 1):
        yield request.param


@pytest.fixture(params=[(2048, 2), (4096, 2), (2048, 4)], ids=str)
def together(request):
    """How many rows a program has, which share the parameters."""
    with read_twice(*request.param):
        yield request.param[1]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("softmax", torch.float32),
        ("softmax", torch.bfloat16),
        ("rms_norm", torch.float32),
        ("rms_norm", torch.float16),
        ("layer_norm", torch.bfloat16),
        ("layer_norm", torch.float16),
    ],
    ids=str,
)
def test_rows_that_are_read_twice_agree_with_float64(name, dtype, block):
    mine, reference, parameters = row_functions(name, COLS, dtype)
    x = random(3, COLS + 3, dtype=dtype)[:, 3:]
    near(mine(x, *parameters), reference(x.double(), *[each.double() for each in parameters]), length=COLS)


@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=str)
def test_gradients_of_softmax_over_rows_that_are_read_twice(dtype, block):
    x, dy = random(3, COLS, dtype=dtype, grad=True), random(3, COLS + 3, dtype=dtype, seed=1)[:, 3:]
    right = x.detach().double().requires_grad_()
    (wanted,) = torch.autograd.grad(right.softmax(-1), right, dy.double())
    (found,) = torch.autograd.grad(kernels.softmax(x), x, dy)
    # What is added up are numbers of dy, each with its share of 1.
    near(found, wanted, length=COLS, terms=float(dy.abs().max() * right.detach().softmax(-1).max()))


def test_infinities_and_nan_in_the_gradient_of_softmax_over_rows_that_are_read_twice(block):
    y, dy = random(5, COLS).softmax(-1), random(5, COLS, seed=1)
    dy[0, 3000], dy[1, COLS - 1], dy[2, 0], dy[3] = float("inf"), float("nan"), -3e38, 1e30
    found = torch_softmax.softmax_backward(y, dy)
    assert found[:2].isnan().all(1).tolist() == [False, True]
    right = y.double() * (dy.double() - (y.double() * dy.double()).sum(-1, keepdim=True))
    near(found[4], right[4], length=COLS)
    near(found[2], right[2], length=COLS, terms=3e38 * float(y[2].max()))
    assert torch.equal(found[0].isnan() | found[0].isinf(), torch.ones(COLS, dtype=torch.bool, device=y.device))


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_a_residual_is_added_to_rows_that_are_read_twice(dtype, block):
    x, r, w, b = (random(*shape, dtype=dtype) for shape in ((3, COLS), (3, COLS), (COLS,), (COLS,)))
    y, h = kernels.add_layer_norm(x, r, w, b)
    assert torch.equal(h, x + r)
    near(y, torch.nn.functional.layer_norm((x + r).double(), (COLS,), w.double(), b.double()), length=COLS)
    assert torch.equal(y, kernels.layer_norm(h, w, b)), "what is normalized is the sum as it is kept"
    y, h = kernels.add_rms_norm(x, r, w)
    assert torch.equal(h, x + r)
    near(y, torch.nn.functional.rms_norm((x + r).double(), (COLS,), w.double(), 1e-6), length=COLS)


@pytest.mark.parametrize("rows", [1, 5, 8])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("rms_norm", torch.float32), ("rms_norm", torch.bfloat16), ("layer_norm", torch.float16)],
    ids=str,
)
def test_rows_that_share_the_parameters_agree_with_float64(name, dtype, rows, together):
    """Also where fewer rows are left over than a program has, and where rows lie apart."""
    mine, reference, parameters = row_functions(name, COLS, dtype)
    x = random(rows, COLS + 3, dtype=dtype)[:, 3:]
    near(mine(x, *parameters), reference(x.double(), *[each.double() for each in parameters]), length=COLS)


@pytest.mark.parametrize("rows", [3, 4])
@pytest.mark.parametrize("centred", [False, True])
def test_each_of_the_rows_that_share_the_parameters_has_its_own_moments(centred, rows, together):
    """They are far apart, and what the backward pass needs is kept for each."""
    x, w, b = random(rows, COLS, dtype=torch.float16), *random(2, COLS, dtype=torch.float16, seed=1)
    x = (x.float() * 8 + random(rows, 1, seed=2, scale=1000.0)).half()
    y, _, mean, rstd = torch_norm.norm(x, None, w, b if centred else None, 1e-5, centred)
    variance, middle = torch.var_mean(x.double(), -1, correction=0)
    right = (variance if centred else x.double().square().mean(-1)).add(1e-5).rsqrt()
    near(rstd, right, length=COLS)
    if centred:
        near(mean, middle, length=COLS)
    n = (x.double() - middle[:, None] if centred else x.double()) * right[:, None] * w.double()
    near(y, n + b.double() if centred else n, length=COLS)


@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("block", [2048, 4096])
def test_a_residual_is_added_to_rows_that_share_the_parameters(rows, block):
    x, r, w, b = (random(*shape, dtype=torch.float16) for shape in ((rows, COLS), (rows, COLS), (COLS,), (COLS,)))
    with read_twice(block, 2):
        y, h = kernels.add_layer_norm(x, r, w, b)
        assert torch.equal(h, x + r)
        near(y, torch.nn.functional.layer_norm((x + r).double(), (COLS,), w.double(), b.double()), length=COLS)
        y, h = kernels.add_rms_norm(x, r, w)
        assert torch.equal(h, x + r)
        near(y, torch.nn.functional.rms_norm((x + r).double(), (COLS,), w.double(), 1e-6), length=COLS)


@pytest.mark.parametrize("kind", ["an outlier first", "far from zero", "all the same"])
def test_variances_of_rows_that_are_read_twice(kind, block):
    x, weight, bias = random(2, COLS, dtype=torch.float16), *random(2, COLS, dtype=torch.float16, seed=1)
    if kind == "an outlier first":
        x[:, 0] = 1000.0
    elif kind == "far from zero":
        x = (x.float() * 8 + 1000).half()
    else:
        x[:] = 1.5
    right = torch.nn.functional.layer_norm(x.double(), (COLS,), weight.double(), bias.double())
    near(kernels.layer_norm(x, weight, bias), right, length=COLS)


def far_from_zero(cols):
    """A sum of small numbers and of some that are far from zero, and its layer norm."""
    x, r = random(2, cols, dtype=torch.float16), random(2, cols, dtype=torch.float16, seed=1).mul(8).add(6000)
    weight, bias = torch.ones_like(x[0]), torch.zeros_like(x[0])
    y, h = kernels.add_layer_norm(x, r, weight, bias)
    return y, torch.nn.functional.layer_norm(h.double(), (cols,))


def test_a_residual_that_is_far_from_zero():
    y, right = far_from_zero(1000)
    near(y, right, length=1000)


def test_a_residual_that_is_far_from_zero_of_rows_that_are_read_twice(block):
    y, right = far_from_zero(COLS)
    near(y, right, length=COLS)


@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=str)
def test_an_infinite_number_leaves_layer_norm_nothing_as_in_torch(dtype):
    x = random(3, 40, dtype=dtype)
    x[1, 3] = float("inf")
    weight, bias = random(2, 40, dtype=dtype, seed=1)
    right = torch.nn.functional.layer_norm(x.double(), (40,), weight.double(), bias.double())
    assert right[1].isnan().all()
    near(kernels.layer_norm(x, weight, bias), right, length=40)


def test_infinities_and_nan_in_softmax_of_rows_that_are_read_twice(block):
    inf, nan = float("inf"), float("nan")
    x = random(7, COLS)
    x[0, : COLS - 2] = -inf  # whole blocks of nothing
    x[1] = -inf
    x[2, 3000] = inf
    x[3, 3000] = nan
    x[4, 0], x[4, 1] = 3e38, -3e38
    x[5, COLS - 1] = 80.0  # the largest number last
    x[6] = 1e4
    near(kernels.softmax(x), x.double().softmax(-1), length=COLS)


@counts
@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm", "add_layer_norm"])
def test_rows_are_read_twice_and_written_once(name, block):
    rows, half = 3, 2
    x = random(rows, COLS, dtype=torch.bfloat16)
    parameters = [*random(2, COLS, dtype=torch.bfloat16, seed=1)][: {"softmax": 0, "rms_norm": 1}.get(name, 2)]
    added = [x] if name == "add_layer_norm" else []
    found = count(lambda: getattr(kernels, name)(x, *added, *parameters), world="triton")
    assert (found.faults, found.launches) == ((), 1)
    kept = 4 * rows * {"softmax": 0, "rms_norm": 1}.get(name, 2)
    assert found.bytes_written == half * rows * COLS * (1 + len(added)) + kept
    moved = half * rows * COLS * (2 + len(added) + len(parameters))
    assert moved <= found.bytes_read <= moved + 32 * rows  # the first eight numbers


@counts
def test_rows_are_read_twice_and_written_once_backward(block):
    rows, half = 3, 2
    y, dy = random(rows, COLS, dtype=torch.bfloat16), random(rows, COLS, dtype=torch.bfloat16, seed=1)
    found = count(lambda: torch_softmax.softmax_backward(y, dy), world="triton")
    assert (found.faults, found.launches) == ((), 1)
    assert found.bytes_written == half * rows * COLS
    assert found.bytes_read == 2 * 2 * half * rows * COLS


@counts
@pytest.mark.parametrize(
    ("name", "rows"), [("rms_norm", 2), ("rms_norm", 4), ("layer_norm", 2), ("layer_norm", 4), ("add_layer_norm", 2)]
)
def test_parameters_are_read_once_for_all_rows_of_a_program(name, rows):
    programs, half = 3, 2
    x = random(programs * rows, COLS, dtype=torch.bfloat16)
    parameters = [*random(2, COLS, dtype=torch.bfloat16, seed=1)][: 1 if name == "rms_norm" else 2]
    added = [x] if name == "add_layer_norm" else []
    with read_twice(2048, rows):
        found = count(lambda: getattr(kernels, name)(x, *added, *parameters), world="triton")
    assert (found.faults, found.launches) == ((), 1)
    assert found.bytes_written == len(x) * (half * COLS * (1 + len(added)) + 4 * len(parameters))
    moved = half * COLS * (len(x) * (2 + len(added)) + programs * len(parameters))
    assert moved <= found.bytes_read <= moved + 32 * len(x)  # the first eight numbers


@pytest.mark.parametrize("width", [8192, 16_384, 32_768, 65_536])
@pytest.mark.parametrize("most", [32, 64])
def test_choices_for_long_rows(width, most):
    usual = blocks.row_blocks(width, most)
    here, there = (blocks.forward_blocks(width, most, fetches=each) for each in (False, True))
    assert there[: len(here)] == here
    assert here[: len(usual)] == usual
    again, further = here[len(usual) :], there[len(here) :]
    assert again
    assert all(width % one["BLOCK"] == 0 and one["BLOCK"] == 256 * one["num_warps"] for one in again)
    assert all(one["AHEAD"] > 0 and one.get("ROWS", 1) == 1 for one in further)
    assert max(one["AHEAD"] for one in further) * width * 132 * 2 <= 18e6  # of 16 bits, in a cache of 50 MB
    assert blocks.forward_blocks(width, most, twice=False) == usual
    assert blocks.forward_blocks(width, most, twice=False, together=(2, 4)) == usual
    shared = blocks.forward_blocks(width, most, fetches=True, together=(2, 4))
    assert [one for one in shared if "BLOCK" not in one or "ROWS" not in one] == there
    several = shared[len(here) : -len(further)]
    assert {one["ROWS"] for one in several} == {2, 4}
    assert all({"BLOCK": one["BLOCK"], "num_warps": one["num_warps"]} in again for one in several)
    short = blocks.forward_blocks(4096, most, fetches=True)
    assert short == [*blocks.row_blocks(4096, most), {"ROWS": 1, "num_warps": 32}], "and four numbers a thread"
    assert blocks.forward_blocks(128, most) == blocks.row_blocks(128, most)


def test_what_was_measured_can_still_be_chosen():
    known = tomllib.loads(tuning.FILE.read_text(encoding="utf-8"))["NVIDIA H200"]
    for name, most in (("softmax", 64), ("rms_norm", 32), ("layer_norm", 32), ("add_rms_norm", 32)):
        for width, choice in known[name].items():
            assert choice in blocks.forward_blocks(int(width), most, fetches=True), (name, width)


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm"])
def test_a_program_asks_for_the_row_of_one_that_follows_after_all_multiprocessors(name, monkeypatch):
    module = torch_softmax if name == "softmax" else torch_norm
    launched = []
    monkeypatch.setattr(module, "launch", lambda kernel, grid, *args, **given: launched.append((grid, given)))
    monkeypatch.setattr(module, "chained", lambda device: True)
    monkeypatch.setattr(module, "processors", lambda device: 132)
    monkeypatch.setattr(rings, "on_hopper", lambda *rows: False)  # programs with a ring ask for no row
    wanted = []

    def choose(kernel, key, found, run):
        for one in found:
            run(one)
            wanted.append(one)
        return found[0]

    tuning.set_tuner(choose)
    try:
        mine, _, parameters = row_functions(name, 8192, torch.bfloat16)
        mine(random(5, 8192, dtype=torch.bfloat16), *parameters)
    finally:
        tuning.set_tuner(None)
    assert [given["AHEAD"] for _, given in launched[: len(wanted)]] == [132 * one.get("AHEAD", 0) for one in wanted]
    assert {given["AHEAD"] for _, given in launched} == {0, 4 * 132, 8 * 132}
    assert all(grid == (5,) for grid, given in launched if given["AHEAD"])
    for one, (grid, given) in zip(wanted, launched, strict=False):
        assert given.get("BLOCK") == one.get("BLOCK")
        assert given.get("ROWS", 1) == one.get("ROWS", 1)
        assert grid == (-(-5 // one.get("ROWS", 1)),)


def test_rows_in_fp32_are_centred_in_registers():
    """The difference of two sums is exact enough for formats of 16 bits."""
    found = []

    def choose(kernel, key, choices, run):
        found.append(any("BLOCK" in one for one in choices))
        return choices[0]

    tuning.set_tuner(choose)
    try:
        for dtype in (torch.float32, torch.bfloat16):
            x, w, b = random(1, 8192, dtype=dtype), *random(2, 8192, dtype=dtype)
            kernels.layer_norm(x, w, b)
    finally:
        tuning.set_tuner(None)
    assert found == [False, True]


def test_a_full_row_needs_no_mask_and_nan_stays_in_a_variance(tmp_path):
    code = (
        "import json\n"
        "from dataclasses import replace\n"
        "from rooflab.kernels.catalogue import find_build\n"
        "from rooflab.kernels.compiled import compile_for\n"
        "build = find_build('layer_norm')\n"
        "builds = [replace(build, constants={**build.constants, 'FULL': full}) for full in (True, False)]\n"
        "builds.append(find_build('layer_norm_long'))\n"
        "print(json.dumps([compile_for(each, 'sm90').text['ptx'] for each in builds]))"
    )
    full, masked, twice = told_elsewhere(code, tmp_path)
    each = 4096 // (8 * 32)  # numbers that a thread has
    assert full.count("selp") < each <= masked.count("selp")
    assert all(ptx.count("max.NaN.f32") == 1 for ptx in (full, masked, twice))


def test_long_rows_fill_a_multiprocessor_with_threads(tmp_path):
    code = (
        "import json\n"
        "from dataclasses import replace\n"
        "from rooflab.kernels.catalogue import find_build\n"
        "from rooflab.kernels.compiled import compile_for\n"
        "told = []\n"
        "for name in ('softmax_long', 'rms_norm_long', 'layer_norm_long', 'add_layer_norm_long'):\n"
        "    for ahead in (0, 264):\n"
        "        build = find_build(name)\n"
        "        made = compile_for(replace(build, constants={**build.constants, 'AHEAD': ahead}), 'sm90')\n"
        "        fetches = made.text['ptx'].count('prefetch.global.L2')\n"
        "        told.append([made.resident() * made.warps * 32, made.spill_bytes, fetches])\n"
        "build = find_build('softmax')\n"
        "made = compile_for(replace(build, constants={**build.constants, 'AHEAD': 264}), 'sm90')\n"
        "told.append(made.text['ptx'].count('prefetch.global.L2'))\n"
        "made = compile_for(find_build('softmax_backward_long'), 'sm90')\n"
        "told.append([made.resident() * made.warps * 32, made.spill_bytes])\n"
        "print(json.dumps(told))"
    )
    *told, alone, backward = told_elsewhere(code, tmp_path)
    assert backward == [2048, 0]
    assert all(threads == 2048 and spilled == 0 for threads, spilled, _ in told)
    fetched = [fetches for _, _, fetches in told]
    assert fetched[::2] == [0] * 4
    assert all(fetched[1::2])
    assert fetched[-1] == 2 * fetched[1]
    assert alone > 0


def test_rows_that_share_the_parameters_leave_room_for_threads(tmp_path):
    """Of programs with up to 16 warps 2,048 threads fit with two rows, 1,024 with four."""
    code = (
        "import json\n"
        "from dataclasses import replace\n"
        "from rooflab.kernels.catalogue import find_build\n"
        "from rooflab.kernels.compiled import compile_for\n"
        "told = []\n"
        "for name, rows in (('rms_norm', 2), ('layer_norm', 2), ('rms_norm', 4), ('layer_norm', 4),\n"
        "                   ('add_rms_norm', 2), ('add_layer_norm', 2)):\n"
        "    for warps in (8, 16, 32):\n"
        "        build = find_build(f'{name}_long')\n"
        "        sizes = {'ROWS': rows, 'BLOCK': 256 * warps}\n"
        "        made = compile_for(replace(build, constants={**build.constants, **sizes}, warps=warps), 'sm90')\n"
        "        loads = made.text['ptx'].count('ld.global')\n"
        "        told.append([name, rows, warps, made.resident() * warps * 32, made.spill_bytes, loads])\n"
        "print(json.dumps(told))"
    )
    for name, rows, warps, threads, spilled, loads in told_elsewhere(code, tmp_path):
        alone, centred = not name.startswith("add_"), "layer" in name
        of_a_row = (1 if alone else 2) * (2 if centred else 1) + 1  # the first eight numbers, all of them, and again
        assert loads == rows * of_a_row + (2 if centred else 1), "a thread loads the parameters once for all rows"
        assert threads >= (2048 if rows == 2 and warps < 32 and alone else 1024), (name, rows, warps)
        assert spilled == 0, (name, rows, warps)
