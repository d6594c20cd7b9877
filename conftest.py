"""Keep every test away from the reader's own state, and Triton in its interpreter where there is no GPU."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

os.environ["ROOFLAB_HOME"] = tempfile.mkdtemp(prefix="rooflab-test-")
atexit.register(shutil.rmtree, os.environ["ROOFLAB_HOME"], ignore_errors=True)
if not any(Path(node).exists() for node in ("/dev/nvidia0", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")
