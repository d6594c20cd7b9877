"""Can Triton kernels be interpreted in this process, as counting them needs?

>>> missing("triton").startswith("Triton is not installed")
True
"""

from __future__ import annotations

import os
import sys

__all__ = ["interpreting", "missing", "use_interpreter"]

TOO_LATE = (
    "Triton was imported before TRITON_INTERPRET=1 was set, so its kernels are compiled and cannot be counted here: "
    "restart the kernel (or the process) and call rooflab.counters.use_interpreter() before anything imports triton."
)


def missing(library: str) -> str:
    """Return the sentence that says how to install a library that a count needs."""
    name = {"torch": "PyTorch", "jax": "JAX", "triton": "Triton"}[library]
    return f'{name} is not installed, and this count needs it: pip install "rooflab[{library}]".'


def interpreting() -> bool:
    """Whether Triton kernels defined from now on are interpreted: the variable counts when triton is imported."""
    if "triton" not in sys.modules:
        return os.environ.get("TRITON_INTERPRET") == "1"
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    # triton.language's own functions are made at import, so they show what the variable said then.
    return isinstance(tl.sum, InterpretedFunction) and os.environ.get("TRITON_INTERPRET") == "1"


def use_interpreter() -> None:
    """Make Triton interpret its kernels in this process, which counts them and needs no GPU.

    Raises:
        RuntimeError: if triton was imported before and compiles its kernels; the message says what to do.
    """
    if "triton" in sys.modules and not interpreting():
        raise RuntimeError(TOO_LATE)
    os.environ["TRITON_INTERPRET"] = "1"
