"""What has been graded already, so that nothing is done twice and nothing is lost when the grader is killed?

A folder of the course, `.rooflab/grading/<assignment>`, holds for each student and notebook what came of it, under a
key that changes when the submission, the lab, the limits or the secret change. Files are written whole or not at all.

>>> key_of(["ab"]) == key_of(["a", "b"])
False
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .outcome import Outcome

__all__ = ["Journal", "key_of", "write_atomically"]

_VERSION = "1"  # of what is kept


def key_of(parts: Iterable[bytes | str]) -> str:
    """Return a hash of everything that an outcome depends on."""
    digest = hashlib.sha256(_VERSION.encode())
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file so that it is there whole or not at all, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")  # one grader at a time; what a killed one left is overwritten
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class Journal:
    """The outcomes of one assignment."""

    def __init__(self, course: Path, assignment: str) -> None:
        self.folder = course / ".rooflab" / "grading" / assignment
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise ValueError(
                f"{course} cannot be written ({error.strerror}), and grading keeps its journal and results there: "
                "free it, or copy the course to a place where you may write."
            ) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other graders of this assignment out; the lock falls with the process.

        Raises:
            ValueError: another is at work.
        """
        with self.folder.joinpath("lock").open("a") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"{self.folder.name} is being graded by another process: wait until it has ended, or stop it."
                ) from None
            except (ImportError, OSError):  # a file system without locks
                pass
            for part in self.folder.rglob(".*.part"):
                part.unlink(missing_ok=True)
            yield

    def secret(self, fixed: str | None = None, *, fresh: bool = False) -> str:
        """Return the secret from which the seeds of all checks follow; made at the first run and kept.

        Args:
            fixed: use and keep this one.
            fresh: make a new one.
        """
        path = self.folder / "secret"
        if fixed is None and not fresh and path.is_file() and (kept := path.read_text().strip()):
            return kept
        told = fixed or secrets.token_hex(16)
        write_atomically(path, f"{told}\n".encode(), 0o600)
        return told

    def find(self, student: str, notebook: str, key: str) -> Outcome | None:
        """Return what was kept under this key, or None."""
        try:
            told = json.loads(self._path(student, notebook).read_text())
            return Outcome.from_json(json.dumps(told["outcome"])) if told["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # of a broken disk, or an older version
            return None

    def keep(self, student: str, notebook: str, key: str, outcome: Outcome) -> None:
        """Keep an outcome."""
        told = {"key": key, "outcome": json.loads(outcome.to_json())}
        write_atomically(self._path(student, notebook), json.dumps(told, sort_keys=True).encode(), 0o600)

    def recorded(self, student: str, key: str) -> bool:
        """Whether the results under this key are in the gradebook and in the course's folders."""
        try:
            return (self.folder / "recorded" / student).read_text() == key
        except OSError:
            return False

    def note_recorded(self, student: str, key: str) -> None:
        """Note that they are."""
        write_atomically(self.folder / "recorded" / student, key.encode(), 0o600)

    def _path(self, student: str, notebook: str) -> Path:
        return self.folder / "outcomes" / student / f"{notebook}.json"
