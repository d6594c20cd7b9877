"""JupyterHub and its proxy, in a folder of their own: installed once, kept until a pin changes.

JupyterHub's packages lie beside the book's environment, which they complete (PYTHONPATH) and do not change.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCREENSHOTS = ROOT / ".artifacts" / "screenshots"
PINS = ("requirements.lock", "package.json", "package-lock.json")
UNREACHABLE = re.compile(
    r"NewConnectionError|Name or service not known|name resolution|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH"
    r"|Network is unreachable|ETIMEDOUT"
)


class Unreachable(Exception):
    """A registry cannot be reached; the message says which."""


def install(folder=ROOT / ".artifacts" / "hub"):
    """Return the folder with ``packages/`` (JupyterHub) and ``node_modules/`` (the proxy).

    Raises:
        Unreachable: it is not installed yet, and a registry cannot be reached.
        RuntimeError: an installation failed for another reason.
    """
    digest = hashlib.sha256(sys.version.encode())
    for name in PINS:
        digest.update((HERE / name).read_bytes())
    stamp = folder / "ready"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest.hexdigest():
            stamp.unlink(missing_ok=True)
            for name in ("packages", "node_modules"):
                shutil.rmtree(folder / name, ignore_errors=True)
            for name in PINS[1:]:
                shutil.copy(HERE / name, folder)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "packages")]
            _run([*pip, "-r", str(HERE / PINS[0])], folder, "JupyterHub")
            _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder, "configurable-http-proxy")
            stamp.write_text(digest.hexdigest())
    return folder


def _run(command, folder, what):
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=540,
    )  # fmt: skip
    if done.returncode:
        if UNREACHABLE.search(done.stdout):
            raise Unreachable(f"{what} is not installed yet, and its registry cannot be reached")
        raise RuntimeError(f"{what} could not be installed:\n{done.stdout[-2000:]}")


def search_path(folder):
    """Return PATH and PYTHONPATH of a process that finds JupyterHub, its proxy, the book's tools and its package."""
    binaries = [folder / "packages" / "bin", folder / "node_modules" / ".bin", Path(sys.executable).parent]
    return {
        "PATH": os.pathsep.join([*map(str, binaries), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(folder / "packages")]),
    }
