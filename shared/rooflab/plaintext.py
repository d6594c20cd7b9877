"""What stands on a terminal that has no µ, no ✓ and no –?

What a typist would write in their place:

>>> "100 µs – ✓".encode("ascii", errors=ERRORS).decode()
'100 us - ok'
"""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

__all__ = ["ERRORS", "allow_any_terminal"]

ERRORS = "rooflab.plaintext"

_TYPED = {
    "µ": "u", "μ": "u", "α": "alpha", "β": "beta", "γ": "gamma", "π": "pi", "ρ": "rho", "σ": "sigma",
    "–": "-", "—": "-", "−": "-", "·": "-", "×": "x", "✓": "ok", "✗": "x", "…": "...", "≈": "~", "≤": "<=", "≥": ">=",
    "→": "->", "←": "<-", "’": "'", "“": '"', "”": '"', "²": "^2", "³": "^3",
}  # fmt: skip


def _type(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_typed, error.object[error.start : error.end])), error.end


def _typed(letter: str) -> str:
    if letter in _TYPED:
        return _TYPED[letter]
    base = unicodedata.normalize("NFKD", letter).encode("ascii", errors="ignore").decode()
    return base or "?"


codecs.register_error(ERRORS, _type)


def allow_any_terminal() -> None:
    """Let nothing that is printed fail because the terminal lacks a character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
