"""How is a result written so that no half of it is ever left behind?

Into a temporary file beside the target, which is then renamed over it: a reader sees the old file or the new one.

>>> import tempfile, pathlib
>>> target = write_atomic(pathlib.Path(tempfile.mkdtemp()) / "deep" / "result.txt", "42")
>>> target.read_text()
'42'
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from .state import replacing

__all__ = ["OutputError", "explain", "output_folder", "require_space", "write_atomic"]

# Executed notebooks with their figures and the page take 10 MB; compiled kernels, a course and sockets 200 MB.
_RESULTS_BYTES, _TEMPORARY_BYTES = 50e6, 300e6


class OutputError(OSError):
    """A result could not be written; the message says where, why and what to do."""

    def __str__(self) -> str:
        return str(self.args[0])


_REASONS = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the disk quota is used up: free some space and try again",
    errno.EROFS: "it is on a read-only file system: choose another folder",
    errno.EACCES: "you may not write there: choose another folder",
    errno.EPERM: "you may not write there: choose another folder",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another folder",
    errno.EEXIST: "a file stands where a folder is needed: choose another folder",
}


def _explain(error: OSError, path: Path) -> OutputError:
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return OutputError(f"Cannot write {path}: {reason}.")


def explain(error: OSError) -> str:
    """Any other error of the operating system as a sentence."""
    if isinstance(error, OutputError) or error.errno is None or not error.strerror:
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{where}{_REASONS[error.errno][0].upper()}{_REASONS[error.errno][1:]}."
    return f"{where}{error.strerror}."


def output_folder(path: Path) -> Path:
    """Make the folder, prove that a file can be written into it, and return it as an absolute path without detours.

    Called before a long job, so that a read-only folder is found out at its start and not at its end.

    Raises:
        OutputError: the folder cannot be made or written to.
    """
    try:
        path = Path(path).expanduser().resolve()
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise _explain(error, path) from error
    return path


def require_space(output: Path) -> None:
    """Prove before a long job that there is room for what it writes.

    Args:
        output: the folder for results, which exists.

    Raises:
        OutputError: the disk of the results, or that of temporary files, is nearly full.
    """
    temporary = Path(tempfile.gettempdir())
    places = {output: (_RESULTS_BYTES, "--output"), temporary: (_TEMPORARY_BYTES, "the variable TMPDIR")}
    for path, (needed, how) in places.items():
        same_disk = [bytes_ for other, (bytes_, _) in places.items() if other.stat().st_dev == path.stat().st_dev]
        needed = max(needed, sum(same_disk))
        free = shutil.disk_usage(path).free
        if free < needed:
            raise OutputError(
                f"The disk of {path} is nearly full: about {needed / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are "
                f"free. Free some space, or give a folder on another disk with {how}."
            )


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Write bytes, or text as UTF-8, to the path by way of a temporary file and a rename; return the path.

    Raises:
        OutputError: the file could not be written; what stood there before is untouched.
    """
    try:
        with replacing(path) as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise _explain(error, path) from error
    return path
