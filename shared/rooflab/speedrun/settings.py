"""How does torch have to be set up for a run? As its config says, and afterwards as it was.

>>> import torch
>>> from rooflab.speedrun.config import preset
>>> with settings(preset("tiny").change(precision="tf32")):
...     torch.get_float32_matmul_precision()
'high'
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from .config import Config

__all__ = ["quiet", "settings"]


@contextmanager
def settings(config: Config) -> Iterator[None]:
    """torch's settings of this run; what was set before is set again afterwards."""
    import torch

    precision, deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads or threads)
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)  # one graph for each window
    torch.set_float32_matmul_precision("highest" if config.precision == "fp32" else "high")
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses
    torch.use_deterministic_algorithms(config.deterministic)
    try:
        with quiet():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that torch's compiler raises of torch's own code; those of ours are heard."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch(\..*)?$")
        yield
