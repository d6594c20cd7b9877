"""How does a run survive a crash? Everything that a step depends on is in one file, which is replaced as a whole.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> save(folder, {"step": 7})
>>> load(folder)["step"]
7
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from .config import Config, ConfigError, from_dict

__all__ = ["NAME", "CheckpointError", "check", "load", "remove", "save"]

NAME = "checkpoint.pt"


class CheckpointError(ValueError):
    """A run cannot go on from what its folder holds; one sentence says why."""


def save(folder: Path, values: dict[str, Any]) -> None:
    """Replace the folder's checkpoint: a reader sees the old file or the new one, also after a loss of power.

    Raises:
        OSError: the folder cannot be written; the old checkpoint is untouched.
    """
    import torch

    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{NAME}.")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(values, file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(folder / NAME)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name is on the disk too
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


def load(folder: Path) -> dict[str, Any]:
    """The folder's checkpoint, in main memory.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    import torch

    path = folder / NAME
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint in {folder}: the run has ended, or none was begun there.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises errors of many kinds for a damaged file
        raise CheckpointError(
            f"{path} is damaged ({type(error).__name__}): remove it, and begin the run again."
        ) from error


def check(values: dict[str, Any], config: Config, digest: str, world: int) -> None:
    """Refuse to go on with another config, other data or another number of ranks.

    Raises:
        CheckpointError: naming what differs.
    """
    try:
        kept = from_dict(values["config"])
    except (ConfigError, KeyError) as error:
        raise CheckpointError(f"The checkpoint is of another version of Rooflab ({error}).") from error
    ours = config.to_dict() | {"the text's digest": digest[:12], "ranks": world}
    theirs = kept.to_dict() | {"the text's digest": values["digest"][:12], "ranks": values["world"]}
    for name, value in theirs.items():
        if ours[name] != value:
            raise CheckpointError(
                f"The checkpoint was made with {name} = {value!r}; found {ours[name]!r}: a run goes on as it began."
            )


def remove(folder: Path) -> None:
    """Remove the checkpoint of a run that has ended."""
    (folder / NAME).unlink(missing_ok=True)
