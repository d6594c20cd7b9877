"""What stands on a terminal that has no µ, no ✓ and no –?

What a typist would write in their place:

>>> "100 µs – ✓".encode("ascii", errors=ERRORS).decode()
'100 us - ok'
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
import textwrap
import unicodedata

__all__ = ["ERRORS", "allow_any_terminal", "filled", "terminal_width"]

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
    """Let nothing that is printed fail because the terminal lacks a character, or because there is none."""
    if sys.stdout is None or sys.stderr is None:  # closed by who started us
        # Else the next file that is opened gets the number of standard output, and what is printed goes into it.
        while (handle := os.open(os.devnull, os.O_RDWR)) < 3:
            pass
        os.close(handle)
        sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def terminal_width() -> int:
    """Return how many columns standard output has; a file or a pipe has as many as anybody writes."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def filled(text: str) -> str:
    """Return lines with breaks between words where they would be longer than the terminal is wide."""
    width = max(20, terminal_width())
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")
    )
