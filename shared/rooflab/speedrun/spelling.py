"""What is said of a name that there is none of? The nearest one, or else all of them.

>>> unknown("a rung", "mun", ["muon", "fp8"])
"expected a rung; found 'mun': did you mean muon?"
>>> unknown("a rung", "warp", ["muon", "fp8"])
"expected a rung; found 'warp': they are muon, fp8"
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["unknown"]


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence of an error: what was expected, what was found, and what may have been meant."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"expected {what}; found {name!r}: " + (
        f"did you mean {near[0]}?" if near else f"they are {', '.join(names)}"
    )
