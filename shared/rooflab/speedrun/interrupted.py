"""What does a run that is stopped leave, and how does it go on?

>>> import tempfile
>>> new = Path(tempfile.mkdtemp()) / "run"
>>> with stopped_early(new, Ranks(), resumable=True):
...     new.mkdir()
>>> new.exists()
False
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..stopping import reason
from .checkpoint import NAME
from .folder import RunFolder
from .ranks import Ranks

__all__ = ["stopped_early"]


@contextlib.contextmanager
def stopped_early(folder: Path, ranks: Ranks, *, resumable: bool) -> Iterator[None]:
    """Where a run is stopped, say how it goes on; where nothing was begun, take away the empty folder that was made.

    Args:
        folder: of the run.
        ranks: this process among others; as many have to go on.
        resumable: whether what trains writes checkpoints.

    Raises:
        KeyboardInterrupt: as it came, with a sentence.
    """
    fresh = not folder.exists()
    try:
        yield
    except KeyboardInterrupt:
        if not (resumable and ranks.first and (folder / "config.json").is_file() and not RunFolder(folder).ended()):
            raise
        raise KeyboardInterrupt(f"Stopped by {reason()}. {_onward(folder, ranks.world)}") from None
    finally:
        if fresh and ranks.first:
            with contextlib.suppress(OSError):
                folder.rmdir()  # fails where something is in it


def _onward(folder: Path, world: int) -> str:
    """The command by which a run goes on, and from where."""
    command = "rooflab speedrun" if world == 1 else f"torchrun --nproc-per-node {world} -m rooflab.speedrun"
    where = "its last checkpoint"
    if not (folder / NAME).is_file():
        where = "the beginning, since no checkpoint was due yet (--save-every N says when one is)"
    return f"To go on: {command} --resume {folder}; that is from {where}."
