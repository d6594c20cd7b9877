"""How does a process that is no Jupyter kernel run a notebook's cells, and what do they show?

>>> events = []
>>> print("one", "two", file=_Printed(events))
>>> events
[{'text': 'one two\\n'}]
"""

from __future__ import annotations

import io
import sys
from typing import Any

__all__ = ["CellOutputs", "make_shell"]

_MOST_PRINTED = 20_000
_MOST_SHOWN = 100


def make_shell() -> Any:
    """An IPython shell without history, and with the figures of matplotlib as outputs."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    if InteractiveShell.initialized():
        return InteractiveShell.instance()
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Plain"
    shell = InteractiveShell.instance(config=config)
    shell.displayhook.write_output_prompt = lambda: None
    shell.enable_gui = lambda gui=None: None  # asked for by %matplotlib inline, which changes nothing here
    shell._showtraceback = lambda *raised: None  # an error is told as such, and not printed as well
    return shell


class CellOutputs:
    """What a cell prints and shows, in the order in which it does, within limits."""

    def __init__(self, shell: Any) -> None:
        self.shell, self.events = shell, list[dict[str, Any]]()

    def __enter__(self) -> CellOutputs:
        from IPython.core.displaypub import CapturingDisplayPublisher

        self.before = sys.stdout, sys.stderr, self.shell.display_pub
        sys.stdout = sys.stderr = _Printed(self.events)
        self.shell.display_pub = CapturingDisplayPublisher()
        self.shell.display_pub.outputs = self.events
        return self

    def __exit__(self, *raised: object) -> None:
        sys.stdout, sys.stderr, self.shell.display_pub = self.before

    @property
    def collected(self) -> list[dict[str, Any]]:
        """Texts and pictures as plain data."""
        told: list[dict[str, Any]] = []
        for event in self.events[:_MOST_SHOWN]:
            if "text" in event:
                told.append({"text": event["text"]})
            else:
                shown = {str(kind): part for kind, part in event["data"].items() if isinstance(part, str | bytes)}
                told.append({"data": shown})
        return told


class _Printed(io.TextIOBase):
    """Keeps what is printed between two displays as one text, up to a limit for the cell."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events, self.room = events, _MOST_PRINTED

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept, self.room = text[: self.room], self.room - min(self.room, len(text))
        if self.events and "text" in self.events[-1]:
            self.events[-1]["text"] += kept
        elif kept:
            self.events.append({"text": kept})
        return len(text)
