"""What libraries do to the streams that pytest captures with."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(importlib.util.find_spec("absl") is None, reason="needs absl, which a JAX for GPUs uses")
def test_logging_configured_anew_leaves_pytests_standard_error_open(tmp_path):
    """In a run of its own, where else all tests after it would fail."""
    (tmp_path / "test_one.py").write_text(
        "import logging.config\n\n"
        "def test_import():\n    import absl.logging\n\n"
        "def test_anew(capsys):\n    logging.config.dictConfig({'version': 1})\n\n"
        "def test_after():\n    pass\n"
    )
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    bare = subprocess.run([*run, "test_one.py"], cwd=tmp_path, capture_output=True, text=True)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    ours = subprocess.run([*run, "test_one.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "I/O operation on closed file" in bare.stdout + bare.stderr, "what this is about"
    assert "3 passed" in ours.stdout, ours.stdout + ours.stderr
