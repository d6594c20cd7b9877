"""What has a reader left in a notebook?

Answers in a lab are theirs and are never overwritten; outputs, and what JupyterLab notes beside them, are no change.

>>> same_but_for_a_run('{"cells": [], "metadata": {"widgets": 1}, "nbformat_minor": 5}',
...                    '{"cells": [], "metadata": {}, "nbformat_minor": 5}')
True
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["answered", "same_but_for_a_run"]

# What an answer replaces: nbgrader's stubs in code and in text.
_STUBS = ("raise NotImplementedError()", "YOUR ANSWER HERE")
# What JupyterLab notes in a cell when it is run or folded.
_NOTES = ("collapsed", "execution", "jp-MarkdownHeadingCollapsed", "jupyter", "scrolled", "trusted")


def answered(path: Path) -> bool:
    """Whether a notebook in ``labs/`` holds somebody's answers: it is never overwritten, and never out of step."""
    if path.parts[-3] != "labs":
        return False
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["metadata"].get("nbgrader", {}).get("solution")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return any(not any(stub in source for stub in _STUBS) for source in sources)


def same_but_for_a_run(there: str | None, text: str) -> bool:
    """Whether a notebook differs from the built one only by what a run and JupyterLab leave in it."""
    try:
        found, built = json.loads(there or ""), json.loads(text)
        for notebook in (found, built):
            notebook["metadata"] = notebook["nbformat_minor"] = None
            for cell in notebook["cells"]:
                cell |= {"outputs": [], "execution_count": None, "source": "".join(cell["source"])}
                for left in _NOTES:
                    cell["metadata"].pop(left, None)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    return bool(found == built)
