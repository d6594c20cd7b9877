"""What tests of several folders share."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# The same examples in every run, however slow the machine: a test that fails says that something was changed. Others
# are looked for with `pytest --hypothesis-profile=default --hypothesis-seed=random`.
if importlib.util.find_spec("hypothesis"):
    import hypothesis

    hypothesis.settings.load_profile("ci")

# absl, which JAX's Mosaic imports, keeps the standard error that it finds, here pytest's for all tests, and closes it
# when logging is configured anew while a test captures with `capsys`: all later tests of the process would fail.
if importlib.util.find_spec("absl"):
    import absl.logging

    absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

# A shell ignores SIGINT for what it starts in the background, and nohup SIGHUP; whoever is started by a test would
# inherit that, and could not be stopped by the signal that the test sends.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def _real(command: str) -> str | None:
    """The interpreter behind a command, which may be a version manager's shim that does not work."""
    try:
        told = subprocess.run([command, "-c", "import sys; print(sys.executable)"], text=True, capture_output=True)
    except OSError:
        return None
    return told.stdout.strip() if told.returncode == 0 else None


@pytest.fixture(scope="session")
def other_python() -> Callable[[str], str]:
    """Find another Python by its version, such as "3.13", or skip with the reason.

    Looked for in ROOFLAB_PYTHON313, on the PATH, and among pyenv's.
    """

    def find(version: str) -> str:
        variable = f"ROOFLAB_PYTHON{version.replace('.', '')}"
        candidates = [os.environ.get(variable), f"python{version}"]
        if shutil.which("pyenv"):
            prefix = subprocess.run(["pyenv", "prefix", version], text=True, capture_output=True)
            candidates.append(f"{prefix.stdout.strip()}/bin/python" if prefix.returncode == 0 else None)
        found = next((real for command in candidates if command and (real := _real(command))), None)
        if found is None:
            pytest.skip(f"no Python {version} is here (set {variable} to one)")
        return found

    return find


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, as pip would build it from the repository's address; built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    done = subprocess.run([*command, str(ROOT)], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("rooflab-*.whl")
    return found
