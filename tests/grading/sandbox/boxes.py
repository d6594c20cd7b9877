"""Sandboxes for tests: each way of holding guests that can be had here, and a way to run code inside."""

import contextlib
import json
import os
import shutil
import textwrap
from pathlib import Path

import pytest

from rooflab.grading.sandbox import Limits, Sandbox, SandboxUnavailable, box
from rooflab.grading.sandbox.levels import Way

INSIDE = Path(__file__).parent / "inside"
LIMITS = Limits(memory_bytes=2**28, processes=24, file_bytes=2**23, disk_bytes=2**24, output_bytes=2**16)
USERS = os.geteuid() == 0

WAYS = {
    "bubblewrap": Way("bubblewrap", inner=True, users=USERS),
    # Where namespaces cannot be made inside of others; root has no use for it.
    **({} if USERS else {"bubblewrap-outer": Way("bubblewrap")}),
    "landlock": Way("landlock", users=USERS),
}


def open_box(way, limits=LIMITS, **more):
    """Open a sandbox that holds its guests in one way, or skip with the reason."""
    if WAYS[way].outer and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    more = {"modules": (), "entry": "sandbox_guest:serve", "environment": {"PYTHONPATH": str(INSIDE)}} | more
    patch = pytest.MonkeyPatch()
    patch.setattr(box, "ways", lambda level, unsafe: [WAYS[way]])
    try:
        return Sandbox(limits, **more)
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot do {way}: {error}")
    finally:
        patch.undo()


class Inside:
    """A guest that runs code."""

    def __init__(self, guest):
        self.guest = guest
        guest.channel.settimeout(120)
        self._lines = guest.channel.makefile("rw")

    def tell(self, code):
        self._lines.write(json.dumps(textwrap.dedent(code)) + "\n")
        self._lines.flush()

    def run(self, code):
        """Run code; the text of its ``found``, or of what it raised."""
        self.tell(code)
        answer = self._lines.readline()
        assert answer, f"the guest is gone: {self.guest.wait(5)} {self.guest.output()}"
        return json.loads(answer)


@contextlib.contextmanager
def inside(sandbox, argument=None):
    with sandbox.start(argument) as guest:
        yield Inside(guest)


def running(marker):
    """The processes that bear a name, as the machine sees them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(marker.encode()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
