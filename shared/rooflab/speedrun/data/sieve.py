"""Which files of source code are worth training on, and which of them have been seen already?

A file is left out for what it is (a table, a generated file, a stub) or for what it repeats: most of its long lines
stand in files that came before. Validation goes through first, so training never gets a copy of it.

>>> sieve = Sieve()
>>> sieve.reason(b"x = 1")
'tiny'
>>> text = b"".join(b"def f%d(argument):  # what the function of this number does\\n" % i for i in range(9))
>>> sieve.take(text), sieve.take(text + b"# a comment more")
('', 'repeated')
"""

from __future__ import annotations

import re
from hashlib import blake2b

__all__ = ["RULES", "Sieve", "clean"]

_LEAST_BYTES, _MOST_BYTES, _LONGEST_LINE = 256, 500_000, 1_000
_DIGITS, _REPEATED = 0.2, 0.5
_LONG_LINE = 40  # bytes of a line, stripped: shorter ones (`return None`, `else:`) are shared by unrelated files
_HEAD_BYTES = 3_000
_GENERATED = re.compile(rb"(?im)^[#\s\"'].{0,100}(?:do not edit|auto-?generated|automatically (?:generated|created)"
                        rb"|generated (?:by|from|with|automatically))")  # fmt: skip
_COPYLEFT = re.compile(rb"(?i)general public licen[cs]e|\b[al]?gpl|mozilla public licen[cs]e|creative commons|"
                       rb"proprietary|non-?commercial")  # fmt: skip
_DIGITS_AND_SPACE, _SPACE = b"0123456789 \t\n\r\f\v", b" \t\n\r\f\v"

# reason -> the rule in words; the page on data is made from it.
RULES = {
    "not text": "is not UTF-8, or holds a zero byte",
    "tiny": f"has fewer than {_LEAST_BYTES} bytes",
    "huge": f"has more than {_MOST_BYTES:,} bytes",
    "long lines": f"has a line of more than {_LONGEST_LINE:,} bytes",
    "table": f"more than {_DIGITS:.0%} of what is not white space are digits",
    "generated": "says in a comment or docstring at its head that it is generated or not to be edited",
    "licence": "names another licence at its head (GPL, LGPL, MPL, Creative Commons, proprietary)",
    "repeated": f"at least {_REPEATED:.0%} of its lines of {_LONG_LINE} bytes or more, comments aside, stand in files "
    "taken before (whole copies among them)",
}


def clean(text: bytes) -> bytes:
    """The text with line feeds alone at line ends and without a byte order mark: the same on every system."""
    return text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class Sieve:
    """Remembers the long lines of every file that it took."""

    def __init__(self) -> None:
        self._files: set[bytes] = set()
        self._lines: set[bytes] = set()

    def reason(self, text: bytes) -> str:
        """Why the file is not worth training on, whatever came before it: a key of `RULES`, or "" if it is."""
        if len(text) < _LEAST_BYTES:
            return "tiny"
        if len(text) > _MOST_BYTES:
            return "huge"
        if b"\0" in text or not _is_utf8(text):
            return "not text"
        if max(map(len, text.split(b"\n"))) > _LONGEST_LINE:
            return "long lines"
        if len(text.translate(None, _DIGITS_AND_SPACE)) < (1 - _DIGITS) * len(text.translate(None, _SPACE)):
            return "table"
        head = text[:_HEAD_BYTES]
        return "generated" if _GENERATED.search(head) else "licence" if _COPYLEFT.search(head) else ""

    def take(self, text: bytes) -> str:
        """Take the file and remember its lines; or the reason why not, a key of `RULES`."""
        if reason := self.reason(text):
            return reason
        whole = blake2b(text.strip(), digest_size=16).digest()
        lines = long_lines(text)
        if whole in self._files or sum(line in self._lines for line in lines) >= max(_REPEATED * len(lines), 1):
            return "repeated"
        self._files.add(whole)
        self._lines.update(lines)
        return ""


def long_lines(text: bytes) -> list[bytes]:
    """Digests of the lines that tell one file from another; comments, and so the headers of licences, are none."""
    stripped = (line.strip() for line in text.split(b"\n"))
    return [blake2b(line, digest_size=8).digest() for line in stripped if len(line) >= _LONG_LINE and line[0] != 35]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
