"""Which files of a course did `rooflab course` write, and which of them has the instructor changed since?

What was changed by hand is left as it is.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> written = Written(folder, {})
>>> written.put("README.md", "one"), written.put("README.md", "two"), written.put("README.md", "two")
('made', 'updated', 'unchanged')
>>> _ = (folder / "README.md").write_text("mine")
>>> written.put("README.md", "three")
'left: README.md was edited by hand; remove it, and it is written anew'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..files import write_atomic
from .course_config import SETTINGS

__all__ = ["Settings", "Written", "read_settings"]

_CONFIG = '''\
"""nbgrader's configuration of this course. `rooflab course` wrote it once and keeps what you add below."""

import sys
from pathlib import Path

try:
    from rooflab.grading.course_config import configure_course
except ImportError:
    # Without it nbgrader would go on, and leave the model answers in the student edition.
    sys.exit("This course needs rooflab 0.1 or newer beside nbgrader: install both in one environment.")

c = get_config()  # noqa: F821  (nbgrader puts it there)
configure_course(c, Path(__file__).resolve().parent)

# Yours from here on, for example penalties for being late: docs/classroom.md of the book shows one.
'''

_README = """\
# The course {id}

An nbgrader course made out of Rooflab's labs. The page docs/classroom.md of the book explains it in full.

| folder | holds |
|---|---|
| `source/` | the labs with solutions and hidden checks: for you alone |
| `release/` | the student editions, made of `source/` by nbgrader |
| `private/` | if you make it: further hidden checks and seeds of your own, `private/<lab>.py` |
| `submitted/`, `autograded/`, `feedback/` | the work of students and of the grader; `rooflab course` leaves it alone |
| `gradebook.db` | every point: keep a copy |

In this folder, one line for each step:

    rooflab course . --due lab1_timer=2026-12-24T18:00    # dates are UTC unless they say another zone
    nbgrader release_assignment lab1_timer                # hand out, through {exchange}
    nbgrader collect lab1_timer                           # take in; --update for later versions
    rooflab grade lab1_timer                              # grade the code; words wait for you in Formgrader
    rooflab grade lab1_timer --feedback                   # once more, with your points; runs nothing again
    nbgrader release_feedback lab1_timer
    rooflab course . --export csv                         # or canvas, or moodle

When the book has changed, run `rooflab course` on this folder again, inside a clone of the book: it brings `source/`
and `release/` up to date and says what it changed. A file that you edited by hand is left as it is.
"""


@dataclass(frozen=True)
class Settings:
    """What `rooflab course` was told (`labs` None: all of the book), and hashes of the files that it wrote."""

    id: str
    exchange: str = ""
    private: str = ""
    labs: tuple[str, ...] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    unreleased: tuple[str, ...] = ()

    def with_changes(self, **changes: Any) -> Settings:
        """These settings with some of them changed; labs are kept in order, each once."""
        if changes.get("labs"):
            changes["labs"] = tuple(dict.fromkeys(changes["labs"]))
        return replace(self, **changes)


def read_settings(folder: Path) -> Settings | None:
    """The settings of a course folder; None where there are none.

    Raises:
        ValueError: they are damaged.
    """
    path = folder / SETTINGS
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        lists = [found["labs"] or [], found["unreleased"], list(found["sources"]), list(found["sources"].values())]
        if not all(isinstance(text, str) for text in sum(lists, [found["id"], found["exchange"], found["private"]])):
            raise TypeError("expected strings")
        labs = None if found["labs"] is None else tuple(found["labs"])
        return Settings(**{**found, "labs": labs, "unreleased": tuple(found["unreleased"])})
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({error!r}): bring it back from a copy.") from error


class Written:
    """The files that are kept up to date in a course folder."""

    def __init__(self, folder: Path, hashes: Mapping[str, str]) -> None:
        self.folder = folder
        self.hashes = dict(hashes)

    def put(self, name: str, text: str, *, once: bool = False) -> str:
        """Write a file unless it was edited by hand; returns what became of it.

        Args:
            name: relative to the course.
            text: what it should hold.
            once: it is the instructor's after it was made.
        """
        path = self.folder / name
        there = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        if there == text:
            self.hashes[name] = _hash(text)
            return "unchanged"
        if there is not None and once:
            return "left: yours since it was made"
        if there is not None and _hash(there) != self.hashes.get(name):
            return f"left: {name} was edited by hand; remove it, and it is written anew"
        write_atomic(path, text)
        self.hashes[name] = _hash(text)
        return "made" if there is None else "updated"

    def course_files(self, settings: Settings) -> Iterator[tuple[str, str]]:
        """Write the configuration and the instructor's page; yields the name and state of each."""
        readme = _README.format(id=settings.id, exchange=settings.exchange or "nbgrader's exchange folder")
        yield "nbgrader_config.py", self.put("nbgrader_config.py", _CONFIG, once=True)
        yield "README.md", self.put("README.md", readme)

    def save(self, settings: Settings, *, unreleased: list[str]) -> None:
        """Keep the settings; `unreleased` are assignments whose student edition is still to be made."""
        kept = asdict(settings) | {"sources": dict(sorted(self.hashes.items())), "unreleased": unreleased}
        write_atomic(self.folder / SETTINGS, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
