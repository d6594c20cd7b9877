"""Kernels are compiled in a process of its own: those of the tests interpret them."""

import json
import os
import subprocess
import sys
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
PATIENCE_S = 1800


def told_elsewhere(code, cache):
    """Run code that compiles, with Triton's cache in a folder; return what it prints as JSON."""
    env = {**os.environ, "PYTHONPATH": str(SHARED), "TRITON_CACHE_DIR": str(cache), "TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
