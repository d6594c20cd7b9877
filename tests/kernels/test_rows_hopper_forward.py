"""Softmax and norms over long rows that are in Gluon: launched, or run with NumPy, and their machine code."""

import pytest

pytest.importorskip("triton.experimental.gluon.language", reason="needs a Triton with Gluon")

from rooflab import kernels
from rooflab.kernels import tuning
from rooflab.kernels.rows import blocks, rings, torch_norm
from rooflab.kernels.rows import triton_norm_forward_hopper as norm_hopper
from rooflab.kernels.rows import triton_softmax_hopper as softmax_hopper

from .agreement import near, random, row_functions, torch
from .compiling import SINCE_39, told_elsewhere
from .gluon_rows import Copies, run, take_over

HALF = torch.float16  # NumPy has it, too
KINDS = ["softmax", "rms_norm", "layer_norm"]
WIDTHS = [8192, 16_384, 32_768]


@pytest.fixture
def on_hopper(monkeypatch):
    wanted, seen = take_over(monkeypatch)
    wanted |= {"BLOCK": 1024, "SLOTS": 3, "PER_SM": 1, "num_warps": 4}
    return wanted, seen


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("cols", "slots"),
    [(4000, 1), (4000, 3), (4000, 4), (4000, 11), (4096, 5), (3072, 2), (16, 2), (1024, 1)],
)
def test_rows_agree_with_float64(name, rows, cols, slots, on_hopper):
    """The last block is full or not, and of 4, 3 or 1 blocks fewer, as many or more are on their way."""
    wanted, seen = on_hopper
    wanted |= {"SLOTS": slots, "PER_SM": 2}
    mine, reference, parameters = row_functions(name, cols, HALF)
    x = random(rows, cols + 32, dtype=HALF)[:, 32:]
    near(mine(x, *parameters), reference(x.double(), *[each.double() for each in parameters]), length=cols)
    assert [grid for grid, _ in seen] == [(1, min(rows, 4))]
    assert seen[0][1]["BLOCKS"] == -(-cols // 1024)
    assert seen[0][1]["FULL"] is (cols % 1024 == 0)


@pytest.mark.parametrize("name", KINDS)
def test_rows_in_bf16(name, on_hopper):
    """Whose numbers become those of fp32 by instructions of their own."""
    mine, reference, parameters = row_functions(name, 2000, torch.bfloat16)
    x = random(3, 2000, dtype=torch.bfloat16)
    near(mine(x, *parameters), reference(x.double(), *[each.double() for each in parameters]), length=2000)
    assert on_hopper[1]


@pytest.mark.parametrize(("centred", "biased"), [(False, False), (True, False), (True, True)])
def test_what_backward_needs_is_kept(centred, biased, on_hopper):
    x, w, b = random(3, 2000, dtype=HALF), *random(2, 2000, dtype=HALF, seed=1)
    y, h, mean, rstd = torch_norm.norm(x, None, w, b if biased else None, 1e-5, centred)
    variance, middle = torch.var_mean(x.double(), -1, correction=0)
    right = (variance if centred else x.double().square().mean(-1)).add(1e-5).rsqrt()
    near(rstd, right, length=2000)
    assert h.numel() == 0
    if centred:
        near(mean, middle, length=2000)
    else:
        assert mean.numel() == 0
    n = (x.double() - middle[:, None] if centred else x.double()) * right[:, None] * w.double()
    near(y, n + b.double() if biased else n, length=2000)
    assert on_hopper[1]


@pytest.mark.parametrize("kind", ["an outlier first", "far from zero", "each elsewhere", "all the same"])
def test_variances(kind, on_hopper):
    cols = 32_768
    wanted, seen = on_hopper
    wanted |= {"BLOCK": 8192, "num_warps": 16}
    x, weight, bias = random(6, cols, dtype=HALF), *random(2, cols, dtype=HALF, seed=1)
    if kind == "an outlier first":
        x[:, 0] = 1000.0
    elif kind == "far from zero":
        x = (x.float() * 8 + 1000).half()
    elif kind == "each elsewhere":  # two programs have three rows each
        x = (x.float() * 16 + torch.tensor([[1e4], [-1e4], [-1e4], [1e4], [3.0], [1e4]]).to(x)).half()
    else:
        x[:] = 1.5
    right = torch.nn.functional.layer_norm(x.double(), (cols,), weight.double(), bias.double())
    near(kernels.layer_norm(x, weight, bias), right, length=cols)
    assert seen


def test_infinities_and_nan_in_softmax(on_hopper):
    inf, nan, cols = float("inf"), float("nan"), 4000
    x = random(7, cols, dtype=HALF)
    x[0, : cols - 2] = -inf  # whole blocks of nothing
    x[1] = -inf
    x[2, 3000] = inf
    x[3, 3000] = nan
    x[4, 0], x[4, 1] = 65_000, -65_000
    x[5, cols - 1] = 80.0  # the largest number last
    x[6] = -1e4  # below the zeros that stand for what is outside
    near(kernels.softmax(x), x.double().softmax(-1), length=cols)
    assert on_hopper[1]


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("place", [0, 3, 1999])
def test_infinities_and_nan_in_norms(name, place, on_hopper):
    """Where there is one of them nothing is left but, in RMS norm, the zeros that infinity leaves of the others."""
    mine, reference, parameters = row_functions(name, 2000, HALF)
    x = random(3, 2000, dtype=HALF)
    x[1, place], x[2, place] = float("inf"), float("nan")
    right = reference(x.double(), *[each.double() for each in parameters])
    assert right[1:].isnan().any(1).all()
    near(mine(x, *parameters), right, length=2000)
    assert on_hopper[1]


def norm_of(x, y, programs, rows, **more):
    """Run the kernel for RMS norm on rows of 2,048, with NumPy."""
    w, rstd = torch.ones(2048, dtype=HALF), torch.zeros(len(y))
    sizes = {"CENTRED": False, "BIAS": False, "FULL": True, "BLOCK": 1024, "BLOCKS": 2, "SLOTS": 3}
    grid = (1, programs)
    run(norm_hopper, "norm_hopper_kernel", grid, y, x, w, w, rstd, rstd, rows, 2048, 2048, 1e-6, **sizes | more)


def softmax_of(x, y, programs, rows):
    sizes = {"FULL": True, "BLOCK": 1024, "BLOCKS": 2, "SLOTS": 3}
    run(softmax_hopper, "softmax_hopper_kernel", (1, programs), y, x, rows, 2048, 2048, **sizes)


@pytest.mark.parametrize("kernel", [norm_of, softmax_of])
def test_programs_without_a_row_write_nothing(kernel):
    x, y = random(5, 2048, dtype=HALF).cpu(), torch.full((5, 2048), 7.0, dtype=HALF)
    kernel(x, y, 4, 2)
    assert (y[:2] != 7).all()
    assert (y[2:] == 7).all()


@pytest.mark.parametrize("kernel", [norm_of, softmax_of])
def test_what_is_not_waited_for_is_not_there(kernel, monkeypatch):
    """The model of the copies finds a wait that is missing."""
    monkeypatch.setattr(Copies, "wait_group", lambda self, outstanding: None)
    x, y = random(2, 2048, dtype=HALF).cpu(), torch.zeros(2, 2048, dtype=HALF)
    kernel(x, y, 1, 2)
    assert y.isnan().all()


@pytest.mark.parametrize("kernel", [norm_of, softmax_of])
def test_each_wait_leaves_a_ring_on_its_way(kernel, monkeypatch):
    """No wait is for more than the block that is needed, but the one for the parameters, and the last."""
    left = []
    wait = Copies.wait_group
    monkeypatch.setattr(Copies, "wait_group", lambda self, n: (wait(self, n), left.append(len(self.groups)))[0])
    x, y = random(3, 2048, dtype=HALF).cpu(), torch.zeros(3, 2048, dtype=HALF)
    kernel(x, y, 1, 3)
    parameters = [2] if kernel is norm_of else []
    assert left == [2] * 2 + parameters + [2] * 4 + [0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cols", WIDTHS)
def test_every_choice_fits(kind, cols):
    found = rings.ring_blocks(kind, cols)
    assert 1 <= len(found) <= 4
    for one in found:
        block, per_sm = one["BLOCK"], one["PER_SM"]
        assert cols % block == 0
        assert block % (256 * one["num_warps"]) == 0  # every thread has 16 bytes of each block
        assert cols <= 64 * 32 * one["num_warps"], "half of the registers"
        parameters = {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[kind]
        ring = 2 * one["SLOTS"] * block
        assert per_sm * (ring + 2 * parameters * cols + 1024) <= 228 * 1024
        assert per_sm * (ring - 2 * block) >= 26_000 or per_sm > 2, "bytes on their way while a block is moved"
        assert per_sm * ring >= 64_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cols", [64, 1024, 4096, *WIDTHS, 65_536])
def test_rows_with_a_ring_are_tuned_for_themselves(kind, cols, monkeypatch):
    """In fp32, where 16 does not divide a row, and on other chips all stays as it is without rings."""
    monkeypatch.setattr(rings, "on_hopper", rings.whole_lines)
    others = blocks.forward_blocks(cols, 64, fetches=cols >= blocks.LONG)
    w = torch.zeros(cols, dtype=HALF)
    name, found = rings.forward_choices(kind, cols, others, w[None], w)
    if cols not in WIDTHS:
        assert (name, found) == (kind, others)
        return
    mine = rings.ring_blocks(kind, cols)
    assert name == f"{kind}_hopper"
    assert found == mine + others[: 12 - len(mine)]
    if kind == "softmax":  # of norms below
        assert tuning.known_choices("NVIDIA H200", name)[(cols,)] in found
    assert rings.forward_choices(kind, cols, others, w[None].float(), w.float()) == (kind, others)
    assert rings.forward_choices(kind, cols, others, w[None, 8:], w[8:]) == (kind, others)
    monkeypatch.undo()
    assert rings.forward_choices(kind, cols, others, w[None], w) == (kind, others), "a CPU"


@pytest.mark.parametrize("kind", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize("cols", WIDTHS)
def test_rows_that_share_the_parameters_are_among_what_is_tried(kind, cols, monkeypatch):
    """Also where there are rings, of layer norm with two and with four rows; and what an H200 chose."""
    monkeypatch.setattr(rings, "on_hopper", rings.whole_lines)
    tried = {}

    def choose(name, key, found, run, device):
        tried[name] = found
        return next(one for one in found if "ROWS" in one and "SLOTS" not in one)

    monkeypatch.setattr(torch_norm, "choose", choose)
    mine, _, parameters = row_functions(kind, cols, HALF)
    mine(random(1, cols, dtype=HALF), *parameters)
    found = tried[f"{kind}_hopper"]
    assert len(found) <= blocks.MOST
    several = {one["ROWS"] for one in found if "BLOCK" in one and "ROWS" in one}
    assert several == {2, 4} or (kind == "rms_norm" and 2 in several)
    chosen = tuning.known_choices("NVIDIA H200", f"{kind}_hopper")
    assert chosen[(cols,)] in found


def test_a_residual_needs_no_ring(on_hopper):
    x, w = random(3, 2000, dtype=HALF), random(2000, dtype=HALF)
    y, h = kernels.add_rms_norm(x, x, w)
    assert torch.equal(h, x + x)
    near(y, torch.nn.functional.rms_norm(h.double(), (2000,), w.double(), 1e-6), length=2000)
    assert not on_hopper[1]


CODE = """
import json
from rooflab.kernels.compiled import compile_for
from rooflab.kernels.rows.builds import hopper_build
from rooflab.kernels.rows.rings import ring_blocks
told = []
for cols in (8192, 16384, 32768):
    for place, choice in enumerate(ring_blocks(KIND, cols)):
        for full in (True, False)[(place, cols) != (0, 16384):]:
            made = compile_for(hopper_build(KIND, cols, choice, full=full), "sm90")
            told.append([
                cols, choice, full, made.longest_loop() * made.warps / 4, made.spill_bytes, made.resident(),
                made.text["ptx"].count("cp.async.cg"),
            ])
print(json.dumps(told))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_instructions_of_a_row_leave_time_for_the_memory(kind, tmp_path):
    """An H200 moves the 128 KB of a row of 32,768, x and y, in 4.1 microseconds of a multiprocessor."""
    told = told_elsewhere(CODE.replace("KIND", repr(kind)), tmp_path)
    assert {cols for cols, *_ in told} == set(WIDTHS)
    for cols, choice, full, instructions, spilled, resident, copies in told:
        assert instructions / 1.755e9 < (0.6 if full else 0.7) * 4.1e-6 * cols / 32_768, (cols, choice)
        assert spilled <= (16 if SINCE_39 else 8), (cols, choice, full)  # a number or two, or four, once a row
        assert resident >= choice["PER_SM"], (cols, choice, full)
        assert copies, (cols, choice)
