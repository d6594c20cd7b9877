"""Settings that have to be there before any test imports a library."""

import os

# Triton reads it when it is imported: kernels in tests are interpreted, which needs no GPU.
os.environ.setdefault("TRITON_INTERPRET", "1")
