"""The wheel without any extra: it imports, it shows the device, and it says which extra a command needs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("bare")


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Path:
    """The binaries of an environment that holds the wheel and its base dependencies, at the versions of the lock."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "requirements.lock")]
    done = subprocess.run([*pip, str(wheel)], text=True, capture_output=True)
    if re.search(r"NewConnectionError|Name or service not known|name resolution", done.stderr):
        pytest.skip("the package index cannot be reached, and the base dependencies come from there")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def run(command: list[str], home: Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ROOFLAB", "TRITON"))}
    return subprocess.run(
        command, env=kept | {"ROOFLAB_HOME": str(home)}, cwd=folder, text=True, capture_output=True, timeout=300
    )


def test_it_imports_and_predicts_without_any_framework(bare, tmp_path):
    code = "import rooflab, sys; print(rooflab.costs.matmul(2, 3, 4, 'fp32').flops, 'torch' in sys.modules)"
    done = run([str(bare / "python"), "-W", "error", "-c", code], tmp_path, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "48 False"), done.stderr


def test_the_device_is_shown(bare, tmp_path):
    done = run([str(bare / "rooflab"), "device"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "torch" in done.stdout, "the card says that torch is missing"


@pytest.mark.parametrize(
    "command", [["run", "s1/u1"], ["tour"], ["record", "s1/u1"], ["course", "x"]], ids=lambda words: words[0]
)
def test_a_missing_extra_is_named_in_one_sentence(bare, tmp_path, command):
    done = run([str(bare / "rooflab"), *command], tmp_path)
    assert done.returncode != 0
    told = done.stderr.strip()
    assert "Traceback" not in told
    assert re.search(r"rooflab\[\w+", told), told
    assert len(told.splitlines()) == 1, told
    assert not list(tmp_path.glob("**/*.ipynb")), "nothing half-written"
