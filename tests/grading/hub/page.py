"""The commands of docs/classroom.md, read from the page itself: what it says is what is run."""

import re
import shlex

import hubsetup

PAGE = hubsetup.ROOT / "docs" / "classroom.md"


def section(title):
    """Return the text below a heading."""
    found = re.search(
        rf"^## (?:\d+\. )?{re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S
    )
    assert found, f"docs/classroom.md has no section {title!r}"
    return found[1]


def commands(title):
    """Return the command lines of a section, split into words."""
    lines = re.findall(r"^    (\S.*)$", re.sub(r"```.*?```", "", section(title), flags=re.S), re.M)
    assert lines, f"the section {title!r} has no command"
    return [shlex.split(line) for line in lines]


def code(title):
    """Return the Python of a section."""
    return re.search(r"```python\n(.*?)```", section(title), re.S)[1]
