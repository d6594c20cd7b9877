"""Keep every test away from the reader's own state, and Triton in its interpreter where there is no GPU."""

import os
import tempfile
from pathlib import Path

os.environ["ROOFLAB_HOME"] = tempfile.mkdtemp(prefix="rooflab-test-")
if not any(Path(node).exists() for node in ("/dev/nvidia0", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")
