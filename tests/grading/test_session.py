"""Functions and objects of another process, as checks see them; here that process is not in a sandbox."""

import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rooflab.grading.lab import LabCell, LabNotebook
from rooflab.grading.provider import Times
from rooflab.grading.rebuild import Step
from rooflab.grading.remote import RemoteFunction, RemoteObject, StudentError, Unsupported, identity, raised
from rooflab.grading.session import Session

SHARED = Path(__file__).resolve().parents[2] / "shared"
SERVE = "import sys; from rooflab.grading.guest import serve; serve(int(sys.argv[1]), {})"


class Processes:
    """A provider of processes that are not held: only for code of this test."""

    def __init__(self):
        self.running, self.started, self.held = {}, 0, []

    def start(self, what):
        mine, theirs = socket.socketpair()
        with theirs:
            env = {**os.environ, "PYTHONPATH": str(SHARED), "PYTHONWARNINGS": "ignore",
                   "MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # fmt: skip
            command = [sys.executable, "-c", SERVE, str(theirs.fileno())]
            self.running[what] = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=env, stderr=subprocess.DEVNULL
            )
        self.started += 1
        return mine

    def hold(self, what, still):
        self.held.append((what, still))

    def end(self, what, reason):
        process = self.running.pop(what)
        process.kill()
        process.wait()
        return "It ended."


@pytest.fixture
def processes():
    made = Processes()
    yield made
    for what in list(made.running):
        made.end(what, "")


def session_with(processes, source, *names, **times):
    session = Session(processes, Times(**{"call_s": 120.0, "total_s": 600.0, **times}))
    ran = session.run(Step("solution", source))
    return session, ran, session.values(names)


SOURCE = """
import numpy as np
answer = [1, 2.5, ("x", None)]
def double(x, by=2):
    print("seen")
    return x * by
def fails(kind):
    if kind == "value": raise ValueError("no", 1)
    if kind == "key": raise KeyError("a key")
    if kind == "own":
        class Mine(LookupError): pass
        raise Mine("mine")
    if kind == "exit": raise SystemExit(3)
    if kind == "unicode": b"\\xff".decode()
    raise NotImplementedError
def in_place(a, l, d):
    a[0] = 9; l.append(1); d["new"] = [2]
def apply(f, x):
    return f(x) + f(x + 1)
def bad_callback(f):
    try: f(1)
    except ZeroDivisionError as error: return str(error)
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x); return self
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __getitem__(self, i): return self.items[i]
class Always:
    def __eq__(self, other): return True
    def __bool__(self): return True
    def __float__(self): return 1.0
def adder(n): return lambda x: x + n
def always(): return Always()
"""


def test_functions_and_data_of_another_process(processes):
    session, ran, names = session_with(
        processes, SOURCE, "answer", "double", "in_place", "apply", "nothing", "bad_callback"
    )
    assert ran.error is None
    assert set(names) == {"answer", "double", "in_place", "apply", "bad_callback"}
    assert names["answer"] == [1, 2.5, ("x", None)]
    shown = []
    session.show = shown.append
    assert names["double"](21) == 42
    assert names["double"]("ab", by=3) == "ababab"
    assert np.array_equal(names["double"](np.arange(3.0)), [0.0, 2.0, 4.0])
    assert shown == ["seen\n"] * 3
    array, given, named = np.zeros(2), [0], {"old": 1}
    names["in_place"](array, given, named)
    assert (array.tolist(), given, named) == ([9.0, 0.0], [0, 1], {"old": 1, "new": [2]})
    assert names["apply"](lambda x: 10 * x, 1) == 30
    assert "division by zero" in names["bad_callback"](lambda x: x / 0)
    session.close()


def test_errors_come_as_built_in_ones(processes):
    session, _, names = session_with(processes, SOURCE, "fails")
    fails = names["fails"]
    for kind, error, message in (
        ("value", ValueError, "no"),
        ("key", KeyError, "a key"),
        ("own", LookupError, "mine"),
        ("exit", RuntimeError, "SystemExit"),
        ("unicode", RuntimeError, "UnicodeDecodeError"),
        ("", NotImplementedError, None),
    ):
        with pytest.raises(error, match=message) as caught:
            fails(kind)
        assert type(caught.value) is error
    with pytest.raises(ValueError, match="no") as caught:
        fails("value")
    assert any("raise ValueError" in note for note in caught.value.__notes__)
    session.close()


def test_objects_can_be_used_and_are_equal_to_nothing(processes):
    session, _, names = session_with(processes, SOURCE, "Stack", "adder", "always")
    stack = names["Stack"]()
    stack.push(3).push("x")
    assert len(stack) == 2
    assert list(stack) == [3, "x"]
    assert stack[0] == 3
    assert stack.items == [3, "x"]
    assert names["adder"](3)(4) == 7
    with pytest.raises(AttributeError):
        stack._private  # noqa: B018
    thing = names["always"]()
    assert isinstance(thing, RemoteObject)
    for use in (lambda: thing == 1, lambda: thing == 1, lambda: bool(thing), lambda: thing != 2):
        with pytest.raises(Unsupported):
            use()
    session.close()


LIAR = """
class Near:
    def __sub__(self, other): return 0.0
    def __add__(self, other): return 0.0
    def __mul__(self, other): return Near()
    def __repr__(self): return "Near()"
    def __len__(self): return 1
    def allclose(self, other): return True
    def equals(self, other): return other is None
    def max(self): return 0.0
def near(): return Near()
"""


def test_an_object_does_not_say_itself_how_near_it_is(processes):
    session, _, names = session_with(processes, LIAR, "near")
    thing, want = names["near"](), np.ones(3)
    for ask in (
        lambda: abs(thing - 2.5) < 1e-6,
        lambda: np.abs(thing - want).max() < 1e-6,
        lambda: (thing * want).max(),
        lambda: thing + 2.5,
        lambda: 2.5 - thing,
        lambda: abs(thing),
        lambda: float(thing),
        lambda: thing / 2,
        lambda: thing.allclose(want),
        lambda: thing.equals(other=want),
        lambda: setattr(thing, "value", 3),
    ):
        with pytest.raises(Unsupported):
            ask()
    assert (thing * 2).max() == 0.0, "an object that comes of an object and a number may be asked"
    assert thing.equals(names["near"]()) is False
    assert repr(thing) == "Near()"
    session.close()
    assert repr(RemoteObject(session, 99, -1, "Gone")) == "<the student's Gone>"


FAKE_GPU = """
import torch
state = {"broken": False, "free": 80}
def synchronize():
    if state["broken"]: raise RuntimeError("CUDA error: an illegal memory access was encountered")
torch.cuda.is_available = torch.cuda.is_initialized = lambda: True
torch.cuda.synchronize, torch.cuda.empty_cache = synchronize, lambda: None
torch.cuda.mem_get_info = lambda: (state["free"], 100)
def fine(): return state["broken"]
def breaks(kind=RuntimeError, **what):
    state.update(what)
    raise kind("CUDA error")
"""


@pytest.mark.parametrize(
    ("what", "processes_in_all"),
    [({"broken": True}, 2), ({"free": 20}, 2), ({}, 1), ({"broken": True, "kind": NotImplementedError}, 1)],
    ids=["broken", "full", "an error of another cause", "a blank answer"],
)
def test_a_process_whose_gpu_has_failed_is_replaced(processes, what, processes_in_all):
    pytest.importorskip("torch", reason="needs torch")
    session, _, names = session_with(processes, FAKE_GPU, "breaks", "fine")
    with pytest.raises(what.get("kind", RuntimeError)):
        names["breaks"](**what)
    session.renew()
    again = session.values(["fine"])["fine"]
    assert processes.started == processes_in_all
    assert again() is (processes_in_all == 1 and what.get("broken", False))
    session.close()


def test_a_cell_that_breaks_the_gpu_is_not_run_again(processes):
    pytest.importorskip("torch", reason="needs torch")
    session, _, _ = session_with(processes, FAKE_GPU)
    ran = session.run(Step("solution", "mine = 1\nbreaks(broken=True)"))
    assert ran.error["message"] == "CUDA error"
    assert session.run(Step("solution", "yours = 2")).error is None
    found = session.values(["fine", "mine", "yours"])
    assert found["fine"]() is False
    assert "mine" not in found
    assert found["yours"] == 2
    session.close()


def test_time_in_which_a_process_is_held_is_not_its_own(processes):
    session, _, names = session_with(processes, "def one(): return 1", "one", total_s=120.0)
    until = session.until
    session.hold(True)
    time.sleep(0.1)
    assert names["one"]() == 1
    assert session.until >= until + 0.1
    session.until, session.times = time.monotonic() + 2.0, Times(20.0, 120.0)
    session.hold(True)
    time.sleep(2.1)
    assert session.deadline() > time.monotonic()
    assert names["one"]() == 1, "its time has not run out meanwhile"
    session.close()


def test_formats_and_paths_can_be_handed_over(processes, tmp_path):
    source = (
        "import numpy as np\n"
        "def cast(x, dtype): return np.asarray(x).astype(dtype)\n"
        "def wanted(): return np.float16\n"
        "def beside(path): return path.parent / 'x.txt'\n"
        "def name(path): return path.name\n"
    )
    session, _, names = session_with(processes, source, "cast", "wanted", "beside", "name")
    for dtype in (np.float16, np.dtype("float16"), int, "i2"):
        assert names["cast"]([1, 2], dtype).dtype == dtype
    assert names["wanted"]() is np.float16
    assert names["name"](tmp_path) == tmp_path.name
    assert isinstance(names["beside"](tmp_path), RemoteObject), "a path of the student's is not one of the grader's"
    session.close()


def test_what_cannot_be_handed_over_is_said(processes):
    session, _, names = session_with(processes, SOURCE, "double")
    with pytest.raises(Unsupported, match="hands over an object"):
        names["double"](object())
    assert names["double"](1) == 2
    session.close()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("while True: pass", "longer than the 2 s"),
        ("import os; os._exit(0)", "ended"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended"),
        ("return [object() for _ in range(20_000)]", "cannot cross"),
        ("x = []\n    for _ in range(200): x = [x]\n    return x", "deep"),
        ("return iter(lambda: 1, 2) if False else (i for i in [1])", None),
    ],
)
def test_a_function_that_is_no_answer_costs_only_itself(processes, body, says):
    source = f"state = [1]\ndef f():\n    {body}\ndef g(): return state"
    session, _, names = session_with(processes, source, "f", "g")
    if says is not None and "longer" in says:
        session.times = Times(2.0, 600.0)
    if says is None:
        assert isinstance(names["f"](), RemoteObject)
    else:
        with pytest.raises((Exception, StudentError), match=says):
            names["f"]()
    session.times = Times(120.0, 600.0)
    again = session.values(["g"])["g"]
    assert again() == [1]
    session.close()


def test_a_cell_that_hangs_is_not_run_again(processes):
    session, ran, _ = session_with(processes, "while True: pass", call_s=1.0)
    assert "longer than the 1 s" in ran.error["message"]
    session.times = Times(120.0, 600.0)
    assert session.run(Step("solution", "x = 1")).error is None
    assert session.values(["x"]) == {"x": 1}
    assert processes.started == 2
    session.close()


def test_functions_of_a_process_that_has_ended_are_no_longer_asked(processes):
    session, _, names = session_with(processes, "import os\ndef f(): os._exit(1)\ndef g(): return 1", "f", "g")
    with pytest.raises(StudentError):
        names["f"]()
    session.values(["g"])
    with pytest.raises(StudentError, match="fresh one"):
        names["g"]()
    session.close()


def test_everything_together_has_an_end(processes):
    session, _, names = session_with(processes, "import time\ndef f(): time.sleep(0.4)", "f")
    session.until, session.times = time.monotonic() + 2.0, Times(120.0, 2.0)  # the start of its process may take longer
    with pytest.raises(StudentError, match="everything"):  # noqa: PT012
        for _ in range(20):
            names["f"]()
    with pytest.raises(StudentError, match="everything together"):
        session.values(["f"])


def test_outputs_of_a_cell_are_text_and_pictures(processes):
    source = (
        "print('seen'); import sys; print('err', file=sys.stderr)\n"
        "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))\n1 + 1"
    )
    session, ran, _ = session_with(processes, source)
    assert ran.error is None
    assert [one.get("text") for one in ran.outputs] == ["seen\nerr\n", None, "2\n"]
    from rooflab.grading.outputs import of_student

    shown = list(of_student(ran))
    assert "<b>" not in str(shown)
    assert any(output.get("data", {}).get("text/plain") for output in shown)
    session.close()


@pytest.mark.parametrize(
    "told",
    [
        None,
        5,
        {},
        {"builtin": "eval"},
        {"builtin": "SystemExit"},
        {"builtin": "__import__", "lines": 7},
        {"builtin": "ValueError", "message": {"a": 1}, "lines": [1, None, "x" * 1000]},
    ],
)
def test_a_forged_error_is_an_exception_all_the_same(told):
    assert isinstance(raised(told), Exception | StudentError)


def test_a_check_that_compares_a_function_waits_for_a_person():
    function = RemoteFunction(None, 0, 1, "function")
    with pytest.raises(Unsupported):
        _ = function == function
    assert LabNotebook("x", (LabCell("check", "", "", "c", 1.0),)).checks[0].points == 1.0


MENDED = """
deep = []
for _ in range(200):
    deep = [deep]
fine = 5
def stops(): raise StopIteration
def numbers(n): yield from range(n)
class Items:
    def __getitem__(self, n): return ("a", "b")[n]
    def method(self): return 1
items = Items()
def hand_over(f): return f(lambda x: x + 1)
def fails_in(f):
    try: f(0)
    except ZeroDivisionError as error: return type(error).__name__ + ": " + str(error)
def sort(values): values.sort(); return values[0]
def sort_in_place(values): values.sort()
"""


def test_what_ends_iterators_does_not_end_those_of_a_check(processes):
    session, _, names = session_with(processes, MENDED, "stops", "numbers", "items")
    with pytest.raises(RuntimeError, match="StopIteration"):
        names["stops"]()
    assert list(names["numbers"](3)) == [0, 1, 2]
    assert list(names["items"]) == ["a", "b"]  # of a class that has items only
    session.close()


def test_objects_of_a_process_that_has_ended_are_none_of_the_next(processes):
    source = "import os\ndef ends(): os._exit(0)\ndef fine(): return 1\n"
    session, _, names = session_with(processes, source, "ends", "fine")
    with pytest.raises(StudentError):
        names["ends"]()
    with pytest.raises(StudentError, match="a fresh one has taken its place"):
        names["fine"]()
    assert session.values(["fine"])["fine"]() == 1
    session.close()


def test_a_name_that_cannot_be_sent_does_not_cost_the_others(processes):
    session, _, names = session_with(processes, MENDED, "deep", "fine", "items")
    assert "deep" not in names
    assert names["fine"] == 5
    session.close()


def test_a_check_may_ask_how_a_function_is_called_and_described(processes):
    import functools

    source = "def f(x: int) -> float:\n    'Say.'\n    return x / 2\ndef g(x): return x"
    session, _, names = session_with(processes, source, "f", "g")
    assert (names["f"].__name__, names["f"].__doc__, names["g"].__doc__) == ("f", "Say.", None)
    assert names["f"].__annotations__ == {"x": int, "return": float}
    assert functools.wraps(names["f"])(lambda x: names["f"](x))(3) == 1.5
    with pytest.raises(AttributeError):
        _ = names["f"].__code__
    session.close()


def test_methods_may_be_called_as_often_as_a_check_likes(processes):
    session, _, names = session_with(processes, MENDED, "items")
    numbers = {identity(names["items"].method)[0] for _ in range(50)}
    assert len(numbers) == 1
    session.close()


def test_functions_of_the_grader_may_call_the_student_s_and_fail(processes):
    session, _, names = session_with(processes, MENDED, "hand_over", "fails_in")
    assert names["hand_over"](lambda g: g(1) + g(2)) == 5
    assert names["fails_in"](lambda x: 1 / x) == "ZeroDivisionError: division by zero"
    session.close()


def test_changes_of_arguments_are_noted_and_can_be_withheld(processes):
    session, _, names = session_with(processes, MENDED, "sort", "sort_in_place")
    values = [3, 1, 2]
    names["sort_in_place"](values)
    assert (values, session.changed) == ([1, 2, 3], True)
    session.changed, values = False, [3, 1, 2]
    assert names["sort"](values) == 1
    assert (values, session.changed) == ([1, 2, 3], True)
    session.withhold, values = True, [3, 1, 2]
    assert names["sort"](values) == 1
    assert values == [3, 1, 2]
    assert names["sort_in_place"](values) is not None, "None could be what is right for the changed values"
    assert values == [1, 2, 3]
    session.close()


def test_what_a_check_may_not_ask_of_an_object_waits_for_a_person():
    made = RemoteObject(None, 0, 1, "Account")
    for ask in (lambda: made < 1, lambda: made >= 1, lambda: isinstance(1, made), lambda: issubclass(int, made)):
        with pytest.raises(Unsupported):
            ask()
    assert not issubclass(Unsupported, Exception)  # no check that expects some error takes it for one
    assert not issubclass(StudentError, Exception)


UNUSUAL = """
import math
import numpy as np
import torch

def objects(): return np.array([1, 2**70], dtype=object)
def records(): return np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])
def conjugate(): return torch.tensor([1 + 2j]).conj()
def sparse(): return torch.eye(2).to_sparse()
def factorial(n): return math.factorial(n)
def singular(): return np.linalg.inv(np.zeros((2, 2)))
def broken(): raise __import__("json").JSONDecodeError("no", "x", 0)
"""


def test_unusual_answers_are_what_they_are(processes):
    pytest.importorskip("torch", reason="needs torch")
    session, ran, names = session_with(
        processes, UNUSUAL, "objects", "records", "conjugate", "sparse", "factorial", "singular", "broken"
    )
    assert ran.error is None
    assert list(names["objects"]()) == [1, 2**70]
    assert names["records"]()["b"].tolist() == [2.0]
    assert names["conjugate"]().tolist() == [1 - 2j]
    assert names["sparse"]().to_dense().sum() == 2
    assert names["factorial"](50_000) == math.factorial(50_000)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        names["singular"]()
    with pytest.raises(ValueError, match="no"):  # its own class wants more than a message
        names["broken"]()
    session.close()


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_timed_calls_run_in_the_student_s_process_and_probes_in_another(processes, monkeypatch, framework):
    """What is measured has a test on a GPU; here every part of the protocol runs, on a CPU."""
    pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("jax", reason="needs JAX")
    from rooflab import costs, speed
    from rooflab.grading.clock import Clock
    from rooflab.grading.timed import normal

    source = (
        "import os, sys\nimport torch, jax.numpy as jnp\n"
        "def torch_softmax(x): return torch.softmax(x, -1)\n"
        "def jax_softmax(x): return jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True)\n"
        "def wrong(x): return x\n"
    )
    session, ran, names = session_with(processes, source, f"{framework}_softmax", "wrong")
    assert ran.error is None
    clock, told = Clock(session), {}
    monkeypatch.setattr(speed, "_speed", lambda times, together: told.update(times))
    speed.set_runners(clock.open)
    try:
        for name, wrong in ((f"{framework}_softmax", False), ("wrong", True)):
            given = {"reference": lambda x: x.double().softmax(-1), "work": costs.softmax(8, 64, "fp32"), "calls": 3,
                     "length": 64, "device": "cpu", "framework": framework}  # fmt: skip
            if wrong:
                with pytest.raises(AssertionError, match="are wrong"):
                    speed.against_roof(names[name], [normal((8, 64))], **given)
            else:
                speed.against_roof(names[name], [normal((8, 64))], **given)
        assert sorted(processes.running) == ["probe", "student"]
        assert [still for _, still in processes.held[:2]] == [True, False], "held while the ceiling is measured"
        assert session.doubtful, "the GPU is looked at before the next exercise"
    finally:
        speed.set_runners(None)
        clock.close()
        session.close()
    assert {name: len(times) for name, times in told.items()} == {"own": 3, "null": 3, "copy": 3}
    assert not processes.running


def test_outputs_stand_in_their_order_and_figures_are_pictures(processes):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    source = (
        "import matplotlib.pyplot as plt\nprint('before')\n_ = plt.plot([1, 2])\nplt.show()\nprint('after')\n"
        "_ = plt.plot([2, 1])\n1 / 0"
    )
    session, ran, _ = session_with(processes, source)
    from rooflab.grading.outputs import of_student

    kinds = [(one.get("text") or one.get("ename") or sorted(one["data"])) for one in of_student(ran)]
    assert kinds == [
        "before\n",
        ["image/png", "text/plain"],
        "after\n",
        ["image/png", "text/plain"],
        "ZeroDivisionError",
    ]
    session.close()


def test_a_cell_that_cannot_be_read_names_its_line(processes):
    session, ran, _ = session_with(processes, "x = 1\ny = = 2\n")
    assert ran.error["message"] == "invalid syntax (line 2 of the cell)"
    assert ran.outputs == []
    session.close()
