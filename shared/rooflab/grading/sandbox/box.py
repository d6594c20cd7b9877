"""How is a place for student code opened, and how does one guest after another go in?

>>> with Sandbox(Limits(), modules=(), entry="os:abort", level="none") as sandbox:
...     with sandbox.start(None) as guest:
...         guest.wait(10)
'It ended its own process, with exit code 1.'
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...scratch import scratch_folder
from .describing import sentence
from .guest import Guest, Ties
from .launch import ForkServer, ServerGone, environment
from .levels import REMEDY, Way, open_server, ways
from .limits import Limits, SandboxUnavailable
from .places import places
from .plan import Errand, Plan
from .rooms import Room, remove, server_variables
from .watch import Watch

__all__ = ["Sandbox", "probe_level"]

_TRIAL_S = 30.0


def probe_level() -> str:
    """The best level that works here, found by trying: "bubblewrap", "landlock", or "none"."""
    try:
        with Sandbox(Limits(), modules=(), entry="") as sandbox:
            return sandbox.level
    except SandboxUnavailable:
        return "none"


class Sandbox:
    """A fork server that has imported what submissions need, and the guests forked from it.

    Threads of one process may start and hold guests at the same time. A fork server that ends is started again.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        modules: Iterable[str] = ("numpy",),
        entry: str = "rooflab.grading.guest:serve",
        read_only: Iterable[Path | str] = (),
        environment: Mapping[str, str] | None = None,
        level: str = "auto",
        accelerator: bool = False,
        unsafe: bool = False,
        folder: Path | None = None,
        hidden: Iterable[Path | str] = (),
        processors: Collection[int] = (),
    ) -> None:
        """Open it at the best level that works, found by trying.

        Args:
            limits: of each guest.
            modules: imported once, before any guest.
            entry: ``module:function``, called in each guest with the descriptor of its channel and its argument.
            read_only: files and folders that guests may read, at the same paths.
            environment: variables of guests. Folders of its PYTHONPATH are shown and searched for modules; its
                OMP_NUM_THREADS is the number of torch's threads in guests, which is 1 by default.
            level: "bubblewrap", "landlock", "none", or "auto" for the best.
            accelerator: show GPUs. The address space of guests is then not limited.
            unsafe: let "auto" end at "none", where nothing but limits of resources holds a guest.
            folder: private to the grader; what must be written goes there. Default: a temporary folder,
                which a later run removes if this one is killed.
            hidden: what guests may not see, also where it lies in a folder that is searched for modules.
            processors: those that guests run on, and cannot leave; empty for all.

        Raises:
            SandboxUnavailable: no level works, or a module cannot be imported.
            FileNotFoundError: something of ``read_only`` does not exist.
            ValueError: no level has this name.
        """
        if sys.platform != "linux":
            raise SandboxUnavailable(
                "Student code can be held on Linux only: grade on a Linux machine, in a container, or in WSL 2."
            )
        self.limits = limits
        self._modules = [*modules, *filter(None, [entry.partition(":")[0]])]
        self._given = dict(environment or {})
        self._accelerator = accelerator
        self._shown = places(read_only, environment=self._given, accelerator=accelerator, hidden=hidden)
        self._plan = Plan(entry=entry, limits=limits, accelerator=accelerator, environment=self._given)
        self._cleaning = ExitStack()
        own = folder if folder is not None else self._cleaning.enter_context(scratch_folder("sandbox"))
        self._folder = Path(tempfile.mkdtemp(prefix="sandbox-", dir=own)).resolve()
        self._lock = threading.Lock()
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="sandbox starter")
        if processors:  # of this thread, and so of all that it starts
            self._starter.submit(os.sched_setaffinity, 0, processors).result()
        self._watch = Watch()
        self._server: ForkServer | None = None
        self._broken = self._closed = False
        self._held: Mapping[str, Any] = {}
        self._threads = 1
        try:
            self._way = self._choose(ways(level, unsafe=unsafe))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def level(self) -> str:
        """What holds guests: "bubblewrap", "landlock" or "none"."""
        return self._way.level

    def describe(self) -> str:
        """What holds guests and what is missing, in one sentence."""
        return sentence(self._plan, self._held, threads=self._threads)

    def start(self, argument: Any) -> Guest:
        """Start a guest, sealed off already; its entry point is called with ``argument``, which JSON must hold.

        Raises:
            SandboxUnavailable: no guest could be sealed, with a new fork server either.
        """
        for last in (False, True):
            with self._lock:
                if self._closed:
                    raise SandboxUnavailable("The sandbox is closed: open another.")
                if self._server is None or self._broken:
                    self._reopen()
                server = self._server
            try:
                return self._start(server, argument)
            except ServerGone as error:
                with self._lock:
                    self._broken = self._broken or server is self._server
                if last:
                    raise SandboxUnavailable(f"The sandbox has stopped working: {error}.") from error
        raise AssertionError("the second try returns or raises")

    def close(self) -> None:
        """End every guest and the fork server, and remove what was written."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._server is not None:
                for guest in self._watch.guests():
                    guest.begin_kill("its sandbox was closed")
                for guest in self._watch.guests():
                    guest.wait(1)
                self._server.close()
                self._server = None
        self._watch.close()
        self._starter.shutdown()
        remove(self._folder)
        self._cleaning.close()

    def _choose(self, known: list[Way]) -> Way:
        reasons = []
        for way in known:
            try:
                self._open(way)
            except _Unusable as error:
                reasons.append(f"{way.level}: {str(error).rstrip('.')}")
            else:
                return way
        raise SandboxUnavailable(
            f"Student code cannot be held on this machine ({'; '.join(dict.fromkeys(reasons))}): {REMEDY}."
        )

    def _open(self, way: Way) -> None:
        """Start a fork server, try it with a guest that does nothing, and let it import the modules.

        Raises:
            _Unusable: this way does not work here.
            SandboxUnavailable: a module cannot be imported.
        """
        if self._server is not None:
            self._server.close()
            self._server = None
        given = environment(self._given, accelerator=self._accelerator)
        if not way.outer:
            given |= server_variables(self._folder, self._given)
        try:
            self._server, self._plan = open_server(
                way, self._plan, self._shown, folder=self._folder, variables=given, starter=self._starter
            )
            self._own_users = way.users
            guest = self._start(self._server, None, trial=True)
            self._held = guest.held
            why = guest.wait(_TRIAL_S)
            guest.close()
        except (ServerGone, SandboxUnavailable) as error:
            raise _Unusable(str(error)) from error
        if why != "It ended its own process.":
            raise _Unusable(f"a guest that does nothing does not end ({why})")
        self._threads = self._server.load(self._modules)
        self._broken = False

    def _reopen(self) -> None:
        try:
            self._open(self._way)
        except _Unusable as error:
            raise SandboxUnavailable(f"The sandbox has stopped working: {error}.") from error

    def _start(self, server: ForkServer | None, argument: Any, *, trial: bool = False) -> Guest:
        assert server is not None
        room = Room(self._plan, self._folder, own_user=self._own_users)
        try:
            started = server.fork(Errand(room.scratch, room.uid, room.processes, trial), argument)
        except BaseException:
            room.give_back()
            raise
        ties = Ties(
            report=started.report,
            output=started.output,
            keeper=started.keeper,
            files=room.files_bytes if room.on_disk else None,
            give_up=lambda: self._give_up(server),
            release=room.give_back,
        )
        guest = Guest(started.channel, started.pid, self.limits, held=started.held, ties=ties)
        self._watch.add(guest)
        return guest

    def _give_up(self, server: ForkServer) -> None:
        """A guest does not end: leave its fork server behind, and start another for the next."""
        with self._lock:
            if self._server is server:
                self._broken = True


class _Unusable(RuntimeError):
    """This way of holding guests does not work here."""
