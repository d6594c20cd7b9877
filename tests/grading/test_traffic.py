"""Counted traffic is worth points: nothing of a student's has a part in the counting but the kernel's own text."""

import numpy as np
import pytest

from rooflab.grading.lab import LabCell, LabNotebook
from rooflab.grading.plainnotebook import Cell
from rooflab.grading.puretriton import NotPure, pure_kernel
from rooflab.grading.rebuild import rebuild
from rooflab.traffic import Traffic, traffic

pytest.importorskip("triton", reason="needs Triton")

IMPORTS = """import numpy as np
import triton
import triton.language as tl
from rooflab import check
from rooflab.traffic import traffic"""
CHECK = """
x = np.arange(256, dtype=np.float32)
y = np.zeros_like(x)
moved = traffic(double, grid=(2,), args=[x, y, 256], constants={"BLOCK": 128})
check.equal(moved.args[1], 2 * x)
check.equal(moved.faults, ())
check.that(moved.bytes_moved <= 2.2 * x.nbytes, "at most a tenth more than the least")
"""
LAB = LabNotebook(
    "lab",
    (
        LabCell("setup", IMPORTS, IMPORTS),
        LabCell("solution", "", "", "double", binds=("double",)),
        LabCell("check", CHECK, CHECK, "double-1", 2.0),
    ),
)
RIGHT = """
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
"""
HELPER = """
FACTOR = 2
HALF: tl.constexpr = 0.5

@triton.jit
def twice(v):
    if HALF > 0:
        v = v * FACTOR
    return v

@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    "Doubles."
    pid = tl.program_id(axis=0)
    i = (pid * BLOCK + tl.arange(0, BLOCK)).to(tl.int32)
    for _ in range(1):
        tl.store(y + i, twice(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)

def launch(x, y):
    double[(2,)](x, y, x.numel(), BLOCK=128)
"""
WASTEFUL = RIGHT.replace("2 *", "(2 + 0 * tl.load(x + i, mask=i < n)) *")


@pytest.fixture(scope="module")
def slot(tmp_path_factory):
    from rooflab.grading.sandbox import Limits
    from rooflab.grading.slot import Slot

    with Slot(LAB, Limits(call_s=15, total_s=100), private=tmp_path_factory.mktemp("private")) as opened:
        yield opened


def graded(slot, answer):
    cells = [Cell("code", IMPORTS), Cell("code", answer, grade_id="double"), Cell("code", CHECK, grade_id="double-1")]
    outcome = slot.examine(rebuild(LAB, cells), "secret")
    assert outcome.failure == ""
    return outcome.checks["double-1"]


# What a kernel returns is said by code that runs when the kernel is defined, beside whoever counts.
LIE = WASTEFUL.replace(
    "):",
    """) -> exec('''
import rooflab.traffic

class Lie(rooflab.traffic.Traffic):
    def __init__(self, moved, *rest):
        super().__init__(1, *rest)

rooflab.traffic.Traffic = Lie
'''):""",
    1,
)
WILD = RIGHT.replace("x + i, mask", "(4096 + 4 * i).to(tl.int64).to(tl.pointer_type(tl.float32)), mask")
NAMED = "from triton import jit\n" + RIGHT.replace("@triton.jit", "@jit").replace("):", ") -> None:")


@pytest.mark.parametrize("answer", [RIGHT, HELPER, NAMED], ids=["plain", "with helpers", "imported by name"])
def test_a_right_kernel_gets_its_points(slot, answer):
    result = graded(slot, answer)
    assert (result.score, result.note) == (2.0, "")


FORGED = """
import rooflab.traffic, rooflab.counters
rooflab.traffic.measure_traffic = lambda *a: rooflab.traffic.Traffic(1, 1, 1, 1, 1)
rooflab.counters.count = lambda *a, **k: None
class Fake:
    args = (0, [0])
    bytes_moved = 1
"""


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param(WASTEFUL, "at most a tenth more", id="wasteful"),
        pytest.param(FORGED + WASTEFUL, "at most a tenth more", id="patches the library"),
        pytest.param(RIGHT.replace("2 *", "3 *"), "expected", id="wrong"),
        pytest.param(LIE, "what it returns", id="counts for itself"),
        pytest.param(WILD, "belongs to no argument", id="reads any address"),
        pytest.param("", "does its cell run", id="nothing"),
        pytest.param("def double(*a, **k): return 0", "defines no kernel 'double'", id="a function"),
        pytest.param("double = None", "expected a kernel", id="None"),
        pytest.param(RIGHT.replace("    i =", "    while True: pass\n    i ="), "longer than", id="endless"),
        pytest.param("OPEN = open\n" + RIGHT.replace("2 *", "OPEN('/etc/passwd') *"), "cannot use", id="reads a file"),
    ],
)
def test_whatever_else_gets_none_and_is_told_why(slot, answer, says):
    result = graded(slot, answer)
    assert result.score == 0.0
    assert says in result.note


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("2 *", "(1).__class__(2) *", "__class__"),
        ("2 *", "open('/etc/passwd') *", "cannot use 'open'"),
        ("2 *", "os.getpid() *", "os.getpid"),
        ("2 *", "(lambda: 2)() *", "Lambda"),
        ("@triton.jit", "@print\n@triton.jit", "other decorators"),
        ("BLOCK: tl", "BLOCK: exec('1') or tl", "annotation"),
        ("2 *", "tl.extra *", "tl.extra"),
        ("2 *", "tl.core *", "tl.core"),
        ("2 *", "tl.math.__dict__ *", "__dict__"),
        ("2 *", "tl.inline_asm_elementwise *", "tl.inline_asm_elementwise"),
        ("2 *", "x.handle *", "x.handle"),
        ("2 *", "tl.load.fn *", "tl.load.fn"),
        ("    i =", "    import os\n    i =", "Import here"),
        ("    i =", "    global z\n    i =", "Global here"),
        ("    i =", "    def inner(): pass\n    i =", "FunctionDef here"),
        ("    i =", "    with x: pass\n    i =", "With here"),
        ("    i =", "    x.to = 5\n    i =", "x.to"),
        ("    i =", "    del x\n    i =", "Delete here"),
        ("    i =", "    tl = 5\n    i =", "another meaning"),
        ("2 *", "f'{x}' *", "JoinedStr"),
        ("2 *", "[v for v in range(2)][1] *", "ListComp"),
        ("2 *", "(v := 2) *", "NamedExpr"),
        ("2 *", "b'x' *", "b'x'"),
        ("2 *", "1j *", "1j"),
        ("tl.constexpr)", "tl.constexpr = print(1))", "cannot use 'print'"),
        ("2 *", "tl.load(**x) *", "**"),
        ("2 *", "__builtins__ *", "__builtins__"),
        ("tl.constexpr):", "tl.constexpr) -> exec('1'):", "what it returns"),
    ],
)
def test_what_is_no_triton_is_refused(old, new, says):
    assert old in RIGHT
    with pytest.raises(NotPure) as caught:
        pure_kernel("import os\n" + RIGHT.replace(old, new), "double")
    assert says in str(caught.value)


def test_a_number_is_given_without_further_code():
    with pytest.raises(NotPure, match="cannot use 'TWO'"):
        pure_kernel("TWO = tl.constexpr(2, **exec('1'))\n" + RIGHT.replace("2 *", "TWO *"), "double")


def test_a_kernel_is_taken_out_of_its_cell_alone():
    text = pure_kernel(HELPER, "double")
    assert "def launch" not in text
    assert "def twice" in text
    assert "FACTOR = 2" in text
    assert "HALF: tl.constexpr = 0.5" in text
    with pytest.raises(NotPure, match="no kernel 'launch'"):
        pure_kernel(HELPER, "launch")
    with pytest.raises(NotPure, match="no Python"):
        pure_kernel("def (", "double")


@pytest.mark.parametrize(("grid", "args"), [((), []), ((0,), []), ((1, 1, 1, 1), []), ((1,), ["x"]), ((1.0,), [])])
def test_a_launch_that_is_none_is_said(grid, args):
    with pytest.raises(ValueError, match="expected"):
        traffic(None, grid=grid, args=args)


def test_moved_per_used():
    assert Traffic(32, 0, 0, 1, 1).moved_per_used == 0
    assert Traffic(64, 32, 0, 1, 1, args=(np.zeros(1),)).moved_per_used == 2
