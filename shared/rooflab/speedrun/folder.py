"""What does a run leave? One folder with its config, its log and its outcome, which can be compared with another.

>>> import tempfile
>>> run = RunFolder(Path(tempfile.mkdtemp()))
>>> run.log({"step": 1, "loss": 5.5}); [line["loss"] for line in run.lines()]
[5.5]
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..device import Device
from ..locks import alone_in
from ..logbook import now
from ..records import code_commit
from ..state import atomic_write
from .config import Config, ConfigError, from_dict
from .data import Corpus
from .pace import Result

__all__ = ["RunFolder", "version"]


def version(device: Device, data: Corpus, world: int) -> dict[str, Any]:
    """Which code ran, on what device, with which libraries and data."""
    from .. import __version__

    return {
        "rooflab": __version__, "commit": code_commit(), "date": now(),
        "device": {"name": device.name, "kind": device.kind, "chip": device.spec.id if device.spec else "",
                   "memory_bytes": device.memory_bytes},
        "ranks": world, "versions": dict(device.versions),
        "data": {"name": data.name, "digest": data.digest, "train_tokens": len(data.train),
                 "valid_tokens": len(data.valid), "valid_bytes": data.valid_bytes, "source": data.source},
    }  # fmt: skip


@dataclass(frozen=True)
class RunFolder:
    """`config.json`, `version.json`, `log.jsonl` and, at the end, `summary.json` and a figure.

    Attributes:
        path: the folder, which exists.
    """

    path: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from running in the folder at the same time.

        Raises:
            ConfigError: one does already.
        """
        with alone_in(self.path, patience_s=0.0) as free:
            if not free:
                raise ConfigError(f"Another process runs in {self.path}: wait for it, or give another --out.")
            yield

    def begin(self, config: Config, told: dict[str, Any]) -> None:
        """Write what is known before the first step.

        Raises:
            ConfigError: another run is in the folder.
            OSError: it cannot be written.
        """
        if (self.path / "config.json").exists():
            raise ConfigError(
                f"There is a run in {self.path}: go on with it (--resume {self.path}), or give another --out."
            )
        self._write("version.json", told)
        atomic_write(self.path / "log.jsonl", "")
        self._write("config.json", config.to_dict())

    def config(self) -> Config:
        """The config of the run that is in the folder.

        Raises:
            ConfigError: there is none, or of another version.
        """
        path = self.path / "config.json"
        if not path.is_file():
            raise ConfigError(f"There is no run in {self.path}: expected a folder that `rooflab speedrun` made.")
        try:
            return from_dict(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ConfigError(f"{path} cannot be used ({error}): begin the run again, with another --out.") from error

    def data_name(self) -> str:
        """The name of the corpus that the run was begun on.

        Raises:
            ConfigError: it is not written there.
        """
        return str(self._told()["data"]["name"])

    def framework(self) -> str:
        """What trains: "torch" or "jax".

        Raises:
            ConfigError: `version.json` cannot be read.
        """
        return str(self._told().get("framework", "torch"))

    def _told(self) -> dict[str, Any]:
        path = self.path / "version.json"
        try:
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            told["data"]["name"]
            return told
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path} does not name the run's data: begin it again with another --out.") from error

    def log(self, line: dict[str, Any]) -> None:
        """Append one line to the log; numbers that are none are kept as null, which JSON has a word for."""
        with (self.path / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(_plain(line)) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """The log; a last line that a crash cut short is left out, and so is what is no line of a log."""
        found = []
        for line in (self.path / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                break
            if isinstance(told, dict) and isinstance(told.get("step"), int):
                found.append(told)
        return found

    def rewind(self, step: int, *, logged: int = 0, eval_every: int = 0) -> None:
        """Drop what was logged after a step: the run goes on from there.

        Args:
            step: that of the checkpoint.
            logged: steps whose losses were in the log when it was written.
            eval_every: steps between evaluations; 0: only at the end.

        Raises:
            ConfigError: there is no log, or it has lost some of what was in it then; it is left as it is.
        """
        if not (self.path / "log.jsonl").is_file():
            raise ConfigError(f"The log of the run in {self.path} is missing: begin it again with another --out.")
        kept = [line for line in self.lines() if line["step"] <= step]
        if lost := _lost(kept, logged, range(eval_every, step + 1, eval_every) if eval_every else ()):
            raise ConfigError(
                f"{self.path / 'log.jsonl'} is damaged: it lacks {lost}, from before the checkpoint. Put a whole one "
                "in its place, or begin it again with another --out."
            )
        atomic_write(self.path / "log.jsonl", "".join(json.dumps(line) + "\n" for line in kept))

    def go_on(self, step: int, told: dict[str, Any]) -> None:
        """Add to `version.json` on what the rest of the run is trained: date, commit, device, libraries.

        Args:
            step: after which it goes on.
            told: what `version` says now.

        Raises:
            ConfigError: there is no `version.json`.
        """
        before = self._told()
        part = {"step": step} | {name: told[name] for name in ("date", "rooflab", "commit", "device", "versions")}
        self._write("version.json", before | {"resumed": [*before.get("resumed", []), part]})

    def end(self, result: Result, more: dict[str, Any]) -> None:
        """Write the outcome."""
        self._write("summary.json", asdict(result) | more)

    def ended(self) -> bool:
        """Whether the run has come to its end."""
        return (self.path / "summary.json").is_file()

    def _write(self, name: str, values: dict[str, Any]) -> None:
        atomic_write(self.path / name, json.dumps(_plain(values), indent=1, sort_keys=True) + "\n")


def _lost(lines: Sequence[Mapping[str, Any]], logged: int, evaluated: Iterable[int]) -> str:
    """What a log lacks of the losses of the first steps and of the evaluations after some; empty if it has all."""
    many = {line["step"]: len(line["losses"]) for line in lines if isinstance(line.get("losses"), list)}
    there = {step for last, count in many.items() for step in range(last - count + 1, last + 1)}
    missing = [step for step in range(1, logged + 1) if step not in there]
    if missing:
        end = next((step for step in range(missing[0], logged + 1) if step in there), logged + 1) - 1
        return f"the losses of steps {missing[0]:,} to {end:,}"
    seen = {line["step"] for line in lines if "valid_loss" in line}
    return next((f"the validation loss after step {step:,}" for step in evaluated if step not in seen), "")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
