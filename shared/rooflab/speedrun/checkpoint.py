"""How does a run survive a crash? Everything that a step depends on is in one file, which is replaced as a whole.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> save(folder, {"step": 7})
>>> load(folder)["step"]
7
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..state import replacing, settle
from .archive import read_tensors
from .config import Config, ConfigError, from_dict

__all__ = ["NAME", "CheckpointError", "check", "damaged", "load", "remove", "save"]

NAME = "checkpoint.pt"
_HELD = ("config", "digest", "world", "step", "train_s", "intervals", "watch", "params", "states", "random")


class CheckpointError(ValueError):
    """A run cannot go on from what its folder holds; one sentence says why."""


def save(folder: Path, values: dict[str, Any]) -> None:
    """Replace the folder's checkpoint: a reader sees the old file or the new one, also after a loss of power.

    The log comes first, so that none of its lines from before the checkpoint is lost then.

    Raises:
        OSError: the folder cannot be written; the old checkpoint is untouched.
    """
    import torch

    settle(folder / "log.jsonl")
    with replacing(folder / NAME, durable=True) as file:
        torch.save(values, file)


def load(folder: Path) -> dict[str, Any]:
    """The folder's checkpoint, in main memory.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    path = folder / NAME
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint in {folder}: the run has ended, or none was begun there.")
    try:
        return read_tensors(path)
    except Exception as error:  # torch raises errors of many kinds for a damaged file
        raise damaged(f"{path}: {type(error).__name__}") from error


def check(values: dict[str, Any], config: Config, digest: str, world: int) -> None:
    """Refuse to go on with another config, other data or another number of ranks.

    Raises:
        CheckpointError: naming what differs.
    """
    if missing := [name for name in _HELD if not isinstance(values, dict) or name not in values]:
        raise damaged(f"it lacks {', '.join(missing)}")
    try:
        kept = from_dict(values["config"])
    except (ConfigError, LookupError, TypeError) as error:
        raise CheckpointError(f"The checkpoint is of another version of Rooflab ({error}).") from error
    ours = config.to_dict() | {"the text's digest": digest[:12], "ranks": world}
    theirs = kept.to_dict() | {"the text's digest": values["digest"][:12], "ranks": values["world"]}
    for name, value in theirs.items():
        if ours[name] != value:
            raise CheckpointError(
                f"The checkpoint was made with {name} = {value!r}; found {ours[name]!r}: a run goes on as it began."
            )
    if not isinstance(values["step"], int) or not 0 < values["step"] < config.all_steps(world):
        raise damaged(f"step {values['step']} of {config.all_steps(world)}")


def damaged(why: str) -> CheckpointError:
    """The error for a file that could be read, and does not hold what it should."""
    return CheckpointError(f"The checkpoint is damaged ({why}): remove {NAME}, and begin the run again.")


def remove(folder: Path) -> None:
    """Remove the checkpoint of a run that has ended, and what a process that was killed while it wrote one left."""
    for path in (folder / NAME, *folder.glob(f".{NAME}.*")):
        path.unlink(missing_ok=True)
