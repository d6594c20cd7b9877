"""Speed by a clock that a student cannot reach, on a real GPU: honest answers get their share, cheats get nothing."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm GPU that torch sees")

from rooflab.grading.lab import LabCell, LabNotebook  # noqa: E402
from rooflab.grading.plainnotebook import Cell  # noqa: E402
from rooflab.grading.rebuild import rebuild  # noqa: E402

IMPORTS = """
import torch
from rooflab import costs
from rooflab.speed import against_roof
from rooflab.grading.timed import normal
"""
CHECK = """
shape = (16384, 8192)
found = against_roof(softmax, [normal(shape, "bf16")], reference=lambda x: x.float().softmax(-1),
                     work=costs.softmax(*shape, "bf16"), dtype="bf16", length=shape[1])
print(found)
found.points({0.15: 1, 0.7: 2})
"""
JAX_CHECK = CHECK.replace("length=shape[1])", 'length=shape[1], framework="jax")')


def lab(check):
    return LabNotebook(
        "lab",
        (
            LabCell("setup", IMPORTS, IMPORTS),
            LabCell("solution", "", "", "softmax", binds=("softmax",)),
            LabCell("check", check, check, "softmax-1", 2.0),
        ),
    )


LAB, JAX_LAB = lab(CHECK), lab(JAX_CHECK)
TRITON = """
import triton
import triton.language as tl

@triton.jit
def kernel(y, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + i, v / tl.sum(v, 0), mask=i < n)

def softmax(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](y, x, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=16)
    return y
"""
EAGER = "def softmax(x): return torch.softmax(x, -1)"
JAX = "import jax\nsoftmax = jax.jit(lambda x: jax.nn.softmax(x, axis=-1))"
JAX_CHEATS = {
    "kept by identity": "import jax\nkept = []\ndef softmax(x):\n"
    "    if not kept: kept.append(jax.nn.softmax(x, axis=-1))\n    return kept[0]",
    "wrong": "def softmax(x): return x",
}
CHEATS = {
    "leaves the cache as it is": "import rooflab.grading.timed as t\n"
    "t.ballast = lambda device: torch.zeros(0, dtype=torch.int32, device=device)\n" + EAGER,
    "leaves the lead out": "import rooflab.grading.timed as t\n"
    "import rooflab.grading.digest as d\nt.lead = lambda ballast, key, calls: d.chained(ballast, key)\n" + EAGER,
    "kept by identity": "kept = []\ndef softmax(x):\n    if not kept: kept.append(torch.softmax(x, -1))\n"
    "    return kept[0]",
    "another stream": "s = torch.cuda.Stream()\ndef softmax(x):\n    y = torch.empty_like(x)\n"
    "    with torch.cuda.stream(s): torch.cuda._sleep(10**8); y.copy_(torch.softmax(x, -1))\n    return y",
    "a thread": "import threading\ndef softmax(x):\n    y = torch.empty_like(x)\n"
    "    threading.Thread(target=lambda: y.copy_(torch.softmax(x, -1))).start()\n    return y",
    "wrong": "def softmax(x): return x",
    "patched protocol": "import rooflab.grading.timed as t\n"
    "t.hashed = lambda left, levels, key: 0\n" + EAGER,
    "answers at once": """
import rooflab.grading.guest as g, threading
def go(self, number, seed, key, calls):
    self.channel.send({"kind": "done", "error": None, "digest": 1})
    timed, function = self.timers[number]
    timed.go(function, seed, key, calls)
g._Guest.go = go
""" + EAGER,
    "patched clock": "import time\ntime.perf_counter = time.monotonic = lambda: 0.0\n"
    "def softmax(x):\n    for _ in range(9): y = torch.softmax(x, -1)\n    return y",
}  # fmt: skip


def opened(lab, private):
    from rooflab.grading.sandbox import Limits, SandboxUnavailable
    from rooflab.grading.slot import Slot

    limits = Limits(call_s=60, total_s=200, memory_bytes=2**36, processes=2000)
    try:
        made = Slot(lab, limits, private=private, accelerator=True)
    except SandboxUnavailable as error:
        print(f"without a sandbox: {error}")
        made = Slot(lab, limits, private=private, accelerator=True, level="none")
    print(made.sandbox.describe())
    return made


@pytest.fixture(scope="module")
def slot(tmp_path_factory):
    with opened(LAB, tmp_path_factory.mktemp("private")) as made:
        yield made


@pytest.fixture(scope="module")
def jax_slot(tmp_path_factory):
    from rooflab.device import find_device  # which keeps JAX from taking all memory

    if find_device().jax in (None, "cpu"):
        pytest.skip("needs a GPU that JAX sees")
    with opened(JAX_LAB, tmp_path_factory.mktemp("private")) as made:
        yield made


def graded(slot, answer, lab=LAB, check=CHECK):
    cells = [Cell("code", IMPORTS), Cell("code", answer, grade_id="softmax"), Cell("code", check, grade_id="softmax-1")]
    outcome = slot.examine(rebuild(lab, cells), "secret")
    result = outcome.checks.get("softmax-1")
    print(
        outcome.failure,
        outcome.remarks,
        result and (result.score, result.note, result.outputs[:1], f"{result.seconds:.1f} s"),
    )
    assert outcome.failure == ""
    return result


@pytest.mark.parametrize(("answer", "points"), [(TRITON, 2.0), (EAGER, 1.0)], ids=["Triton", "eager"])
def test_honest_answers_get_the_share_of_the_roof_that_they_reach(slot, answer, points):
    assert graded(slot, answer).score == points


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_get_nothing(slot, cheat):
    result = graded(slot, CHEATS[cheat])
    assert not result.score
    assert result.note


def test_jax_gets_the_share_of_the_roof_that_it_reaches(jax_slot):
    assert graded(jax_slot, JAX, JAX_LAB, JAX_CHECK).score == 2.0


@pytest.mark.parametrize("cheat", JAX_CHEATS)
def test_cheats_with_jax_get_nothing(jax_slot, cheat):
    result = graded(jax_slot, JAX_CHEATS[cheat], JAX_LAB, JAX_CHECK)
    assert not result.score
    assert result.note


def test_the_same_on_the_students_own_machine():
    from rooflab import costs
    from rooflab.grading.timed import normal
    from rooflab.speed import against_roof, route

    assert route() == "clock"
    shape = (16384, 8192)
    found = against_roof(
        lambda x: torch.softmax(x, -1), [normal(shape, "bf16")], reference=lambda x: x.float().softmax(-1),
        work=costs.softmax(*shape, "bf16"), dtype="bf16", length=shape[1],
    )  # fmt: skip
    print(found, found.seconds, found.bound_s)
    assert 0.15 < found.ratio < 0.7


def test_a_product_against_its_roof():
    from rooflab import costs
    from rooflab.grading.timed import normal
    from rooflab.speed import against_roof

    found = against_roof(
        lambda a, b: a @ b, [normal((8192, 8192), "bf16"), normal((8192, 8192), "bf16")],
        reference=lambda a, b: a.float() @ b.float(), work=costs.matmul(8192, 8192, 8192, "bf16"), dtype="bf16",
        length=8192,
    )  # fmt: skip
    print(found)
    assert found.ratio > 0.8
