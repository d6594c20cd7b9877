"""Did others compute beside a run? On a CPU a step that waits for them is as long as ten.

Looked at with each evaluation, outside of the timed steps: a few lines of `/proc/stat`.

>>> disturbed([{"others_cores": 1.31, "cores": 2, "disturbed": True}])
'Disturbed: others used 1.3 of 2 cores meanwhile. Close other programs and run it again.'
>>> disturbed([{"others_cores": 0.1, "cores": 2, "disturbed": False}])
''
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..device import Device
from ..load import Watch

__all__ = ["NOTED", "Neighbours", "disturbed", "disturbed_among"]

NOTED = ("others_cores", "cores", "disturbed")  # what a line of the log, and a run's outcome, say of it


class Neighbours:
    """What others computed on a processor, from a run's first line of the log on: what compiles is a child of ours.

    Args:
        device: of the run; beside an accelerator nothing is looked at.
        world: ranks, which are others to each other: of several nothing is known.

    Attributes:
        found: what is known so far: cores that others used on average, all cores, and whether that is too much.
    """

    def __init__(self, device: Device, world: int = 1) -> None:
        self._looks = not device.is_accelerator and world == 1
        self._watch: Watch | None = None
        self.found: dict[str, Any] = {}

    def noted(self, line: dict[str, Any]) -> dict[str, Any]:
        """The line of the log; of an evaluation, with what others computed."""
        if self._looks and self._watch is None:
            self._watch = Watch()
        elif self._watch is not None and "bits_per_byte" in line:
            load = self._watch.load()
            if load is not None and load.is_known:
                self.found = dict(zip(NOTED, (round(load.others, 2), load.cores, load.is_heavy), strict=True))
            return line | self.found
        return line


def disturbed(lines: Iterable[Mapping[str, Any]]) -> str:
    """A sentence where others took cores from a run, by the last line of its log that says it; empty if not."""
    last: Mapping[str, Any] = next((line for line in reversed(list(lines)) if "disturbed" in line), {})
    if not last.get("disturbed"):
        return ""
    return f"Disturbed: others used {_cores([last])} meanwhile. Close other programs and run it again."


def disturbed_among(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The same of several: which were disturbed, and how much.

    >>> disturbed_among({"A": [{"others_cores": 1.3, "cores": 2, "disturbed": True}, {}], "muon": [{}]})
    'Disturbed: A (1 of 2 runs): others used 1.3 of 2 cores meanwhile, so that times are too long.'

    Args:
        found: by name, outcomes of runs or lines of their logs; those that say nothing are taken for undisturbed.
    """
    wrong = {name: [one for one in some if one.get("disturbed")] for name, some in found.items()}
    told = [name + (f" ({len(some)} of {len(found[name])} runs)" if len(found[name]) > 1 else "")
            for name, some in wrong.items() if some]  # fmt: skip
    if not told:
        return ""
    cores = _cores([one for some in wrong.values() for one in some])
    return f"Disturbed: {', '.join(told)}: others used {cores} meanwhile, so that times are too long."


def _cores(found: Sequence[Mapping[str, Any]]) -> str:
    """How many cores others used, at most where there are several."""
    most = max(found, key=lambda one: float(one["others_cores"]))
    return f"{'up to ' * (len(found) > 1)}{most['others_cores']:.1f} of {most['cores']} cores"
