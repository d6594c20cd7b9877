"""What has been asked for on the command line? Texts as names, numbers and switches.

>>> names("bf16, muon"), switches(["lr=0.001", "qk_norm=True"])
(['bf16', 'muon'], {'lr': 0.001, 'qk_norm': True})
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..extras import require
from .config import Config, ConfigError
from .spelling import unknown

if TYPE_CHECKING:
    from ..device import Device
    from .data import Corpus

__all__ = [
    "check_device", "check_installed", "check_left", "check_resume", "check_text", "names", "positive", "switches",
]  # fmt: skip


def names(text: str) -> list[str]:
    """A,B as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of numbers above zero, `int` or `float`."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not value > 0:
            word = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {word} above zero; found {text!r}")
        return value

    return read


_ELSEWHERE = {
    "rungs": "--rung, --up-to, --only or --without", "preset": "--preset",
    "vocabulary": "--set cut_vocabulary=N, which leaves N tokens of the text's own,",
}  # fmt: skip
_READERS: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "bool": {"True": True, "False": False}.__getitem__,
}  # fmt: skip


def switches(texts: list[str]) -> dict[str, Any]:
    """SWITCH=VALUE as switches and values of their types.

    Raises:
        ConfigError: there is no such switch, or a value is of another type.
    """
    kinds = {each.name: str(each.type) for each in fields(Config)}
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in _ELSEWHERE:
            raise ConfigError(f"expected {_ELSEWHERE[name]} in place of --set {name}=")
        if name not in kinds:
            raise ConfigError(unknown("a switch of a run", name, sorted(kinds)))
        read = _READERS.get(kinds.get(name, ""), str)
        try:
            found[name] = read(value)
        except (ValueError, KeyError):
            wanted = {"bool": "True or False", "int": "a whole number"}.get(kinds[name], "a number")
            raise ConfigError(f"expected --set {name}= and {wanted}; found {value!r}") from None
    return found


_OF_A_NEW_RUN = (
    "rung",
    "up_to",
    "only",
    "without",
    "set",
    "steps",
    "minutes",
    "target",
    "batch",
    "preset",
    "data",
    "out",
)


def check_resume(options: argparse.Namespace) -> None:
    """Refuse options that a run which goes on would have to ignore.

    Raises:
        ConfigError: there is one of them.
    """
    asked = [f"--{name.replace('_', '-')}" for name in _OF_A_NEW_RUN if getattr(options, name)]
    asked += ["--seeds"] * (options.seeds > 1)
    if asked:
        raise ConfigError(f"expected --resume without {', '.join(asked)}: a run goes on as it was begun")


def check_installed(framework: str) -> None:
    """Refuse to train without the libraries, before anything is measured; the twin starts from torch's initial values.

    Raises:
        MissingExtra: one is not installed.
    """
    for name in dict.fromkeys(("torch", framework)):
        require(name, name)


def check_device(config: Config, device: Device) -> None:
    """Refuse a switch that a device cannot do; a rung that it cannot do is left out.

    Raises:
        ConfigError: it cannot.
    """
    if config.graph and device.torch != "cuda":
        raise ConfigError(f"expected graph=False: {device.name} has no graphs to replay")


def check_left(named: Iterable[str], skipped: Mapping[str, str]) -> None:
    """Refuse a run of which nothing is left that was asked for by name.

    Where something is, the rest is left out and named, so that one command runs everywhere.

    Args:
        named: rungs; empty names say nothing.
        skipped: those that are left out, with the reasons.

    Raises:
        ConfigError: all of them are left out.
    """
    wanted = [name for name in named if name]
    if wanted and all(name in skipped for name in wanted):
        reasons = "; ".join(f"{name}: {skipped[name]}" for name in wanted)
        raise ConfigError(f"expected a rung that can be done here; found {reasons}")


def check_text(config: Config, rungs: Iterable[str], text: Corpus) -> None:
    """Refuse a text that cannot be cut as a switch says, or as a rung that was asked for by name would cut it.

    What a device cannot do is left out and named, so that one command runs everywhere; a text is the reader's choice.

    Raises:
        ValueError: it cannot.
    """
    from .data.cutting import check_cut
    from .rungs import find_rung

    for name in filter(None, rungs):
        check_cut(text, find_rung(name).change.get("cut_vocabulary", 0), name)
    check_cut(text, config.cut_vocabulary)
