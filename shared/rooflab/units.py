"""How many bytes is a number, and how is a quantity written and read?

Every value inside the package is in SI units (seconds, bytes, FLOP/s); this module is the only place that
turns them into text and back.

>>> bytes_of("bf16"), bytes_of("fp4")
(2, 0.5)
>>> format_si(4.28e12, "B/s"), parse_quantity("20 us", unit="ms")
('4.28 TB/s', 2e-05)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

from .numberformats import FORMATS, bytes_of, format_name

__all__ = ["FORMATS", "Unit", "bytes_of", "format_name", "format_si", "in_unit", "parse_quantity", "unit_of"]

_LARGE = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_SMALL = {"m": 1e-3, "µ": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}

# Units that take prefixes, and which: a millibyte and a kilosecond are nobody's units.
_PREFIXES: dict[str, dict[str, float]] = {
    "s": {"": 1.0} | _SMALL,
    "B": _LARGE | _BINARY,
    "B/s": _LARGE | _BINARY,
    "FLOP": _LARGE,
    "FLOP/s": _LARGE,
    "bit": _LARGE,
    "bit/s": _LARGE,
    "Hz": _LARGE,
    "W": _LARGE | _SMALL,
    "J": _LARGE | _SMALL,
}

_SYNONYMS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "millisecond": "ms", "milliseconds": "ms",
    "usec": "µs", "us": "µs", "μs": "µs", "microsecond": "µs", "microseconds": "µs", "nsec": "ns", "nanosecond": "ns",
    "nanoseconds": "ns", "byte": "B", "bytes": "B", "bits": "bit", "flops/s": "FLOP/s", "flop/s": "FLOP/s",
    "flop": "FLOP", "FLOPs": "FLOP", "FLOPS": "FLOP/s", "flops": "FLOP", "\u00d7": "x", "times": "x", "percent": "%",
    "minute": "min", "minutes": "min", "hour": "h", "hours": "h",
    "flop/byte": "FLOP/byte", "flop/b": "FLOP/byte", "flops/byte": "FLOP/byte",
}  # fmt: skip
_SCALED = {"%": ("x", 0.01), "": ("x", 1.0), "x": ("x", 1.0), "min": ("s", 60.0), "h": ("s", 3600.0)}


@dataclass(frozen=True)
class Unit:
    """A unit of display: `symbol` is written, one of it is `scale` of the SI unit `base`."""

    symbol: str
    base: str
    scale: float

    def to_si(self, number: float) -> float:
        """Return the SI value of so many of this unit."""
        # 20 * 1e-6 is 1.9999999999999998e-05 and 20 / 1e6 is 2e-05: divide where the inverse is the exact number.
        return number * self.scale if self.scale >= 1 else number / round(1 / self.scale)

    def from_si(self, value: float) -> float:
        """Return how many of this unit an SI value is."""
        return value / self.scale if self.scale >= 1 else value * round(1 / self.scale)


def unit_of(symbol: str) -> Unit:
    """Return the unit that a text names, with its SI base and scale; an unknown word is a unit of its own.

    >>> unit_of("GiB/s")
    Unit(symbol='GiB/s', base='B/s', scale=1073741824.0)
    >>> unit_of("tokens/s")
    Unit(symbol='tokens/s', base='tokens/s', scale=1.0)

    Raises:
        ValueError: for ``Gb`` and its kin, which some read as bits and others as bytes, and for ``GB/S`` and its kin,
            which are no unit but look like one.
    """
    if not isinstance(symbol, str):
        raise TypeError(f"expected a unit as text, such as 'ms' or 'GB/s'; found {symbol!r}")
    text = symbol.strip()
    text = _SYNONYMS.get(text, _SYNONYMS.get(text.lower(), text))
    if text in _SCALED:
        base, scale = _SCALED[text]
        return Unit(text, base, scale)
    spelled = _spell(text)
    either = re.fullmatch(r"([kmgtpe]i?|)b(/s|)", re.sub(r"ps$", "/s", spelled), re.IGNORECASE)
    if either and "B" not in spelled:
        prefix, rate = either[1].capitalize() if either[1] != "k" else "k", either[2]
        raise ValueError(
            f"expected {prefix}B{rate} (bytes) or {prefix}bit{rate} (bits); found {symbol!r}, which could be either"
        )
    for base, prefixes in _PREFIXES.items():
        for prefix, scale in prefixes.items():
            if spelled == prefix + base:
                return _bytes(Unit(spelled, base, scale))
    if meant := _known_by_lower_case().get(spelled.lower()):
        raise ValueError(f"expected a unit in its own upper and lower case; found {symbol!r}: did you mean {meant!r}?")
    return Unit(spelled, spelled, 1.0)


@cache
def _known_by_lower_case() -> dict[str, str]:
    every = [prefix + base for base, prefixes in _PREFIXES.items() for prefix in prefixes]
    return {symbol.lower(): symbol for symbol in reversed(every)}


def _spell(text: str) -> str:
    """Bring the usual spellings of a prefixed unit to one: KB, usec, GB/sec, GBps, TFLOPS, TFLOPs/s."""
    text = re.sub(r"^[uμ](?=[sWJ]$)", "µ", text)
    text = re.sub(r"(?<=.)/sec(ond)?$", "/s", text)
    text = re.sub(r"(?<=B|t)ps$", "/s", text)
    text = re.sub(r"(?i)^([kmgtpe]?)flops?/s$", lambda m: m[1] + "FLOP/s", text)
    text = re.sub(r"(?i)^([kmgtpe])flop(s?)$", _spell_flops, text)
    text = re.sub(r"(?i)^([kmgtpe]?)flops?/(b|bytes?)$", lambda m: m[1] + "FLOP/byte", text)
    text = re.sub(r"(?i)^([kmgtpe]i?)bytes?(?=$|/s$)", lambda m: m[1] + "B", text)
    if text.endswith(("FLOP", "FLOP/s")) and text[0] in "mgtpe":
        text = text[0].upper() + text[1:]
    return re.sub(r"^K(?=i?(B|F|bit|Hz))", lambda m: "K" if text[1] == "i" else "k", text)


def _spell_flops(match: re.Match[str]) -> str:
    # TFLOPS is a rate, TFLOPs a count; all lower or all upper case without an s is a count.
    return match[1] + ("FLOP/s" if match[2] == "S" else "FLOP")


def _bytes(unit: Unit) -> Unit:
    """Bits are kept in bytes inside."""
    if unit.base in ("bit", "bit/s"):
        return Unit(unit.symbol, unit.base.replace("bit", "B"), unit.scale / 8)
    return unit


def in_unit(value: float, unit: str) -> float:
    """Return an SI value as the number to show before `unit`.

    >>> in_unit(0.5, "%")
    50.0
    """
    return unit_of(unit).from_si(_as_float(value))


def _as_float(value: object) -> float:
    """A number as a float, infinite where no float is so large."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except (TypeError, ValueError):
        raise TypeError(f"expected a number to write with its unit; found {value!r:.60}") from None


def format_si(value: float, unit: str = "", digits: int = 3) -> str:
    """Write an SI value with `digits` significant digits and the prefix that fits.

    A unit without a prefix ("s", "B/s", "FLOP") gets the best one; a unit with a prefix ("ms", "GiB", "%") is kept.
    Whole numbers without a prefix are written in full.

    >>> format_si(16e-6, "s"), format_si(999.9e9, "B/s"), format_si(80 * 2**30, "GiB"), format_si(65536)
    ('16 µs', '1 TB/s', '80 GiB', '65,536')
    """
    shown = unit_of(unit)
    if isinstance(digits, bool) or not isinstance(digits, int) or digits < 1:
        raise ValueError(f"expected 1 significant digit or more; found {digits!r}")
    value = _as_float(value)
    if shown.base in _PREFIXES and shown.symbol == shown.base:
        shown = _best(value, shown.base, digits)
    number = _digits(shown.from_si(value), digits)
    if shown.symbol == "x":
        return number + "x"
    return f"{number} {shown.symbol}" if shown.symbol else number


def _best(value: float, base: str, digits: int) -> Unit:
    """Return the largest prefix for which the rounded number is at least one."""
    decimal = {p: s for p, s in _PREFIXES[base].items() if p not in _BINARY}
    if value == 0 or not math.isfinite(value):
        return Unit(base, base, 1.0)
    size = float(f"{abs(value):.{digits - 1}e}")  # rounded first, so that 999.9 G becomes 1 T
    fitting = [p for p, s in decimal.items() if size >= s * (1 - 1e-12)]
    prefix = max(fitting, key=decimal.__getitem__) if fitting else min(decimal, key=decimal.__getitem__)
    return Unit(prefix + base, base, decimal[prefix])


def _digits(number: float, digits: int) -> str:
    """Write a number with significant digits, thousands separated, no trailing zeros; whole numbers in full."""
    if not math.isfinite(number):
        return str(float(number))
    if number != 0 and not 1e-4 <= abs(number) < 1e15:
        mantissa, exponent = f"{number:.{digits - 1}e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    if float(number).is_integer():
        return f"{int(number):,}"
    rounded = float(f"{number:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


LONGEST = 200  # characters of an answer
_NUMBER = re.compile(
    r"""^\s*(?:about\s+|[~≈])?\s*
    (?P<number>[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?|\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    (?:\s*(?P<operator>\*\*|\^|/)\s*(?P<second>\d+))?
    \s*(?P<unit>[^\d\s,.].*?)?\s*$""",
    re.VERBOSE,
)


def parse_quantity(text: str, *, unit: str) -> float:
    """Read what a person types as an answer and return it in SI units.

    A bare number is in `unit`, the unit of the question. Read are ``3 ms``, ``3e-3 s``, ``20 us``, ``5 GB/s``,
    ``64 KiB``, ``2x``, ``40 %``, ``1,000``, ``2^20``, ``1/3`` and, where no unit could be meant, ``64k``.

    >>> parse_quantity("3", unit="ms"), parse_quantity("40 %", unit="x")
    (0.003, 0.4)

    Raises:
        ValueError: with one sentence, if the text is no finite number or its unit measures something else.
    """
    asked = unit_of(unit)
    if not isinstance(text, str):
        raise TypeError(f"expected an answer as text, such as '3 ms'; found {text!r}")
    if len(text) > LONGEST:
        raise ValueError(f"expected a number, with or without a unit; found a text of {len(text):,} characters")
    found = _NUMBER.match(text)
    if found is None:
        comma = " (write the decimal point as '.')" if re.search(r"\d,\d", text) else ""
        example = f"3 {asked.symbol}".strip()
        raise ValueError(
            f"expected a number, with or without a unit, such as '{example}'; found {text.strip()!r}{comma}"
        )
    number = _typed_unit(found["unit"] or "", asked).to_si(_value(found))
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, also in SI units; found {text.strip()!r}")
    return number


def _value(found: re.Match[str]) -> float:
    number = float(found["number"].replace(",", "").replace("_", ""))
    if found["operator"] is None:
        return number
    second = int(found["second"])
    try:
        return number / second if found["operator"] == "/" else number**second
    except (ZeroDivisionError, OverflowError):
        return math.inf


def _typed_unit(typed: str, asked: Unit) -> Unit:
    """Return the unit that was typed, which must measure what was asked."""
    if not typed:
        return asked
    if typed in ("k", "K", "M", "G", "T", "P") and asked.base != "s":
        return Unit(typed, asked.base, _LARGE[typed.replace("K", "k")])  # 64k, 5T: the prefix stands for the whole
    unit = unit_of(typed)
    if {unit.base, asked.base} == {"FLOP", "FLOP/s"} and typed.lower().endswith(("flop", "flops")):
        return unit  # FLOPs and FLOPS are written for each other
    if unit.base.removesuffix("s") != asked.base.removesuffix("s"):  # a kernel, two kernels
        kinds = {"": "a plain number", "x": "how many times, such as '3' or '3x'"}
        wanted = kinds.get(asked.symbol, f"{asked.symbol} (or another unit of the same kind)")
        raise ValueError(f"expected {wanted}; found the unit {typed!r}")
    return unit
