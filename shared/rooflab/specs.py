"""What does the datasheet promise for a chip?

The numbers stand in `chips.toml` beside this module: dense peaks, SI units, a source and a date for each row.

>>> h200 = chip("h200")
>>> h200.bytes_per_s, round(h200.ridge("bf16"))
(4800000000000.0, 206)
>>> find_chip("NVIDIA H200").id
'h200'
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from .roofline import Ceilings
from .units import format_name

__all__ = ["Chip", "UnknownChip", "chip", "chips", "find_chip"]


class UnknownChip(KeyError):
    """No row of the table has this id."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the sentence in quotes


@dataclass(frozen=True)
class Chip:
    """One row of the table; what a vendor does not publish is None or absent.

    Attributes:
        id: short name, as in ``chip("h100-sxm")``.
        name: full name.
        vendor: who sells it.
        kind: "gpu", "tpu", "cpu", "npu" (another accelerator) or "soc" (CPU and GPU share memory).
        year: of first sale.
        memory_bytes: capacity of the device's memory (of the largest configuration, where there are several).
        bytes_per_s: peak bandwidth of that memory.
        flops_per_s: dense peak rate of each format, products accumulated in fp32 (integers in int32).
        link_bytes_per_s: to other devices of its kind, all links together, per direction.
        host_bytes_per_s: to the host, per direction.
        aliases: names under which torch, JAX or the operating system report the chip.
        source: where the numbers come from.
        checked: ISO date on which they were compared with the source.
        note: what one should know before using them.
        devices: how many devices the frameworks make of one chip (two, if each die or core is one to them).
    """

    id: str
    name: str
    vendor: str
    kind: str
    year: int
    memory_bytes: float
    bytes_per_s: float
    source: str
    checked: str
    flops_per_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    link_bytes_per_s: float | None = None
    host_bytes_per_s: float | None = None
    aliases: tuple[str, ...] = ()
    note: str = ""
    devices: int = 1

    def __post_init__(self) -> None:
        rates = {format_name(name): float(rate) for name, rate in self.flops_per_s.items()}
        object.__setattr__(self, "flops_per_s", MappingProxyType(rates))
        object.__setattr__(self, "aliases", tuple(self.aliases))

    def __reduce__(self) -> tuple[object, tuple[dict[str, Any]]]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (values | {"flops_per_s": dict(self.flops_per_s)},)  # a mapping proxy cannot be pickled

    def ridge(self, dtype: str) -> float:
        """Return the ridge point in FLOP/byte: the intensity above which arithmetic is the limit.

        Raises:
            KeyError: if the vendor publishes no dense rate for the format; the message names those it does.
        """
        return Ceilings.of_chip(self).ridge(dtype)

    def per_device(self) -> Chip:
        """Return what one of the chip's devices has: an equal share of memory, bandwidth, rates and links."""
        if self.devices == 1:
            return self

        def share(value: float | None) -> float | None:
            return None if value is None else value / self.devices

        return replace(
            self,
            name=f"{self.name}, 1 of {self.devices} devices",
            memory_bytes=self.memory_bytes / self.devices,
            bytes_per_s=self.bytes_per_s / self.devices,
            flops_per_s={name: rate / self.devices for name, rate in self.flops_per_s.items()},
            link_bytes_per_s=share(self.link_bytes_per_s),
            host_bytes_per_s=share(self.host_bytes_per_s),
            devices=1,
        )


def _restore(values: dict[str, Any]) -> Chip:
    return Chip(**values)


@cache
def chips() -> tuple[Chip, ...]:
    """Return every chip of the table, in its order."""
    text = resources.files(__package__).joinpath("chips.toml").read_text(encoding="utf-8")
    return tuple(Chip(**row) for row in tomllib.loads(text)["chip"])


def chip(id: str) -> Chip:
    """Return the chip with an id.

    Raises:
        UnknownChip: if there is none; the message names the nearest ids.
        TypeError: if the id is no text.
    """
    if not isinstance(id, str):
        raise TypeError(f"expected the id of a chip as text, such as 'h200'; found {id!r}")
    table = {row.id: row for row in chips()}
    wanted = id.strip().lower().replace(" ", "-").replace("_", "-")
    if wanted in table:
        return table[wanted]
    near = _near(id)
    hint = f"did you mean {', '.join(near)}?" if near else "rooflab.specs.chips() lists all of them"
    raise UnknownChip(f"expected the id of a chip of the table; found {id!r}: {hint}")


def _near(name: str) -> list[str]:
    """Up to five ids of chips that bear the name or a similar one, without regard to vendor, case and blanks."""
    names: dict[str, list[str]] = {}
    for row in chips():
        for known in (row.id, row.name, *row.aliases):
            names.setdefault(_letters(known), []).append(row.id)
    wanted = _letters(name)
    if not wanted:
        return []
    close = [known for known in names if known == wanted] + [known for known in names if known.startswith(wanted)]
    close += difflib.get_close_matches(wanted, names, n=5, cutoff=0.6)
    return list(dict.fromkeys(id for known in close for id in names[known]))[:5]


def _letters(name: str) -> str:
    """Letters and digits of a name alone, without its vendor."""
    words = re.sub(r"[^a-z0-9]+", " ", _key(name)).split()
    vendors = {row.vendor.lower() for row in chips()} | {"geforce"}
    return "".join(word for word in words if word not in vendors) or "".join(words)


def find_chip(reported_name: str) -> Chip | None:
    """Return the chip that a device reports to be, or None if the table lacks it.

    Names are compared whole, without regard to case, blanks, vendor prefixes and trademark signs: a name that merely
    contains a known one ("RTX 4090 Laptop GPU") is another chip. Where the frameworks make several devices of one
    chip, the device's share is returned (see `Chip.per_device`).
    """
    if not isinstance(reported_name, str):
        raise TypeError(f"expected the name that a device reports, as text; found {reported_name!r}")
    return _by_name().get(_key(reported_name))


@cache
def _by_name() -> dict[str, Chip]:
    return {_key(alias): row.per_device() for row in chips() for alias in row.aliases}


def _key(name: str) -> str:
    text = re.sub(r"\((?:r|tm|c)\)|[®™©]", " ", name.lower())
    text = " ".join(text.split())
    return re.sub(r"^(nvidia|amd|intel)\s+", "", text)
