"""Keep every test away from the reader's own state, and Triton in its interpreter where there is no GPU."""

import os
import tempfile

os.environ["ROOFLAB_HOME"] = tempfile.mkdtemp(prefix="rooflab-test-")
os.environ.setdefault("TRITON_INTERPRET", "1")
