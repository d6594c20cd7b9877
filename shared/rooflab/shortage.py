"""What do we say when the memory is not enough?

Each framework has its own words for it, many lines of them. The reader gets one sentence that says what to do, and the
framework's own error as its cause:

>>> with clear_shortage("the product"):  # doctest: +ELLIPSIS
...     raise MemoryError("Unable to allocate 7 PiB")
Traceback (most recent call last):
rooflab.shortage.OutOfMemory: The product needs more memory than is free here: choose ... (7.88 PB asked ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from .units import format_si, unit_of

__all__ = ["OutOfMemory", "clear_shortage", "is_shortage"]

# NumPy, torch on a CPU, torch on a GPU and on Apple's, cuBLAS, XLA.
_WORDS = (
    "unable to allocate", "can't allocate memory", "out of memory", "alloc_failed", "resource_exhausted",
    # Sizes that no address reaches: torch and NumPy find out before they ask for memory.
    "storage size calculation overflowed", "array is too big", "maximum allowed dimension exceeded",
)  # fmt: skip


_SIZE = r"([\d,]+(?:\.\d+)?)\s*(bytes|[KMGTPE]i?B)"
_ASKED = re.compile(rf"(?:allocate|allocating)\s+{_SIZE}", re.IGNORECASE)
_FREE = re.compile(rf"total capacity of {_SIZE} of which {_SIZE} is free", re.IGNORECASE)


class OutOfMemory(MemoryError):
    """The memory is not enough; the message says what to do, ``__cause__`` is what the framework raised."""


def is_shortage(error: BaseException) -> bool:
    """Whether an error of any framework says that memory was not enough."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(words in text for words in _WORDS)


@contextmanager
def clear_shortage(what: str) -> Iterator[None]:
    """Raise ``OutOfMemory`` in place of whatever a framework raises when ``what`` does not fit.

    Raises:
        OutOfMemory: in place of any framework's own; all other errors pass.
    """
    try:
        yield
    except OutOfMemory:
        raise
    except Exception as error:
        if not is_shortage(error):
            raise
        raise OutOfMemory(
            f"{what[0].upper()}{what[1:]} needs more memory than is free here: choose smaller sizes (a notebook has "
            f"them in the cell of CAPITALS), or delete arrays that are not needed any more ({_amounts(str(error))}"
            f"{_first_sentence(error)})."
        ) from error


def _first_sentence(error: BaseException) -> str:
    """The framework's own words, as far as they are of use."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")


def _amounts(text: str) -> str:
    """How much was asked for and how much there is, as far as the framework's words or the system say."""
    told = []
    if asked := _ASKED.search(text):
        told.append(f"{_bytes(*asked.groups())} asked for")
    if there := _FREE.search(text):
        told.append(f"{_bytes(*there.groups()[2:])} free of {_bytes(*there.groups()[:2])}")
    elif "cpu" in text.lower() or "unable to allocate" in text.lower():
        from .probe import main_memory_bytes

        total = main_memory_bytes()
        told += [f"{format_si(total, 'B')} main memory in all"] if total else []
    return f"{', '.join(told)}; " if told else ""


def _bytes(number: str, unit: str) -> str:
    value = float(number.replace(",", ""))
    return format_si(value if unit.lower() == "bytes" else unit_of(unit).to_si(value), "B")
