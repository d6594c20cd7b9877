"""What honest submissions do, and what must work in a sandbox as it does outside; and how long a start takes."""

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rooflab.grading.sandbox import Limits

from .boxes import INSIDE, WAYS, inside, open_box

pytestmark = pytest.mark.xdist_group("sandbox")

ROOT = Path(__file__).resolve().parents[3]
USEFUL = ("numpy", "torch", "matplotlib.figure", "matplotlib.font_manager", "IPython.core.interactiveshell")
PRELOADED = tuple(name for name in USEFUL if importlib.util.find_spec(name.split(".")[0]))


@pytest.fixture(scope="module", params=WAYS)
def loaded(request):
    environment = {"PYTHONPATH": str(INSIDE), "OMP_NUM_THREADS": "2"}
    with open_box(request.param, Limits(), modules=PRELOADED, environment=environment) as opened:
        opened.way = request.param
        yield opened


@pytest.fixture
def guest(loaded):
    with inside(loaded) as opened:
        yield opened


def test_numpy_computes(guest):
    assert (
        guest.run("import numpy as np; found = float(np.ones((300, 300)) @ np.ones(300) @ np.ones(300))") == "90000.0"
    )
    assert guest.run("found = float(np.linalg.svd(np.eye(200))[1].sum())") == "200.0"
    assert guest.run("found = np.random.default_rng(0).normal(size=3).shape") == "(3,)"


def test_torch_computes_with_its_threads(guest):
    if "torch" not in PRELOADED:
        pytest.skip("torch is not installed")
    assert guest.run("import torch; found = torch.get_num_threads()") == "2"
    assert guest.run("found = float((torch.ones(700, 700) @ torch.ones(700, 700)).max())") == "700.0"
    assert guest.run("""
        x = torch.randn(64, 64, requires_grad=True)
        torch.nn.functional.gelu(x).sum().backward()
        found = tuple(x.grad.shape)
    """) == "(64, 64)"  # fmt: skip


def test_figures_are_drawn(guest):
    if "matplotlib.figure" not in PRELOADED:
        pytest.skip("matplotlib is not installed")
    assert guest.run("""
        import matplotlib.pyplot as plt, os
        plt.plot([1, 2]); plt.title('a title'); plt.savefig('figure.png')
        found = os.path.getsize('figure.png') > 1000
    """) == "True"  # fmt: skip


def test_temporary_files_and_programs(guest):
    assert guest.run("""
        import subprocess, sys, tempfile
        with tempfile.NamedTemporaryFile('w+') as file, tempfile.TemporaryDirectory() as folder:
            file.write('x')
        shell = subprocess.run('echo $HOME | cat', shell=True, capture_output=True, text=True)
        python = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True)
        found = shell.stdout.strip().endswith('/home'), python.stdout.strip(), python.stderr
    """) == "(True, '42', '')"  # fmt: skip


def test_threads_and_pools(guest):
    assert guest.run("""
        from concurrent.futures import ThreadPoolExecutor
        import asyncio
        with ThreadPoolExecutor(4) as pool:
            squares = list(pool.map(lambda x: x * x, range(10)))
        async def later():
            await asyncio.sleep(0.01)
            return 'done'
        found = sum(squares), asyncio.run(later())
    """) == "(285, 'done')"  # fmt: skip


def test_a_shell_of_ipython_runs_cells(guest):
    if PRELOADED[-1] not in sys.modules and importlib.util.find_spec("IPython") is None:
        pytest.skip("IPython is not installed")
    assert guest.run("""
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
        config = Config()
        config.HistoryManager.enabled = False
        shell = InteractiveShell(config=config)
        good = shell.run_cell('x = 6 * 7\\nx')
        bad = shell.run_cell('1 / 0')
        timed = shell.run_cell('%timeit -n1 -r1 x + 1')
        found = good.result, type(bad.error_in_exec).__name__, timed.success
    """) == "(42, 'ZeroDivisionError', True)"  # fmt: skip


def test_the_machine_is_known(guest):
    assert guest.run("import os, platform; found = os.cpu_count(), platform.machine()") == (
        repr((os.cpu_count(), os.uname().machine))
    )
    assert guest.run("import time; found = time.perf_counter() > 0 and time.localtime().tm_year > 2000") == "True"


def test_multiprocessing_where_shared_memory_is_its_own(guest):
    if not guest.guest.held["namespaces"]:
        pytest.skip("semaphores lie in /dev/shm, which guests without a mount namespace must share with all")
    assert guest.run("""
        import multiprocessing, operator
        with multiprocessing.get_context('fork').Pool(2) as pool:
            found = pool.map(operator.neg, [1, 2, 3])
    """) == "[-1, -2, -3]"  # fmt: skip


def test_a_start_is_quick(loaded, capsys):
    """Printed, not asserted: other work on the machine would decide."""
    starts, whole = [], []
    for _ in range(8):
        begun = time.perf_counter()
        with inside(loaded) as one:
            starts.append(time.perf_counter() - begun)
            assert one.run("found = 1") == "1"
        whole.append(time.perf_counter() - begun)
    with capsys.disabled():
        ready, gone = statistics.median(starts) * 1e3, statistics.median(whole) * 1e3
        what = ", ".join(PRELOADED)
        print(f"\n{loaded.way}: a guest with {what} is ready after {ready:.0f} ms, and gone after {gone:.0f} ms")


@pytest.mark.timeout(1500)
def test_anybody_can_use_it(request):
    """The attacks and the limits once more, as an ordinary user, when the tests are run by root."""
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    python = "/usr/bin/python3"
    packages = Path(pytest.__file__).parents[1]
    try:
        told = subprocess.run(
            [python, "-c", "import sys, pytest; print(sys.version_info >= (3, 11))"], capture_output=True, text=True,
            user=65534, group=65534, extra_groups=[], env={"PYTHONPATH": str(packages)}, check=False,
        ).stdout.strip()  # fmt: skip
    except OSError as error:
        told = str(error)
    if told != "True" or not os.access(ROOT, os.X_OK):
        pytest.skip(f"no Python 3.11 or newer that an ordinary user can run with pytest ({python}: {told})")
    home = Path(tempfile.mkdtemp(prefix="rooflab-test-"))  # those of pytest are closed to other users
    os.chown(home, 65534, 65534)
    request.addfinalizer(lambda: shutil.rmtree(home))
    tests = [str(Path(__file__).with_name(name)) for name in ("test_sandbox_attacks.py", "test_sandbox_limits.py")]
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "--rootdir", str(ROOT), *tests],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1",
             "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(packages)])},
        cwd=ROOT, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False, timeout=1400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
