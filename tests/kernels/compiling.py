"""Kernels are compiled in a process of its own: those of the tests interpret them."""

import importlib.util
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
PATIENCE_S = 1800

_TRITON = metadata.version("triton") if importlib.util.find_spec("triton") else "0.0"
# From 3.9 on products with 8 columns are of Hopper's own kind, and some kernels spill a few bytes: docs/kernels.md.
SINCE_39 = tuple(map(int, _TRITON.split(".")[:2])) >= (3, 9)


def told_elsewhere(code, cache):
    """Run code that compiles, with Triton's cache in a folder; return what it prints as JSON."""
    env = {**os.environ, "PYTHONPATH": str(SHARED), "TRITON_CACHE_DIR": str(cache), "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
