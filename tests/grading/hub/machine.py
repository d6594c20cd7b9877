"""The class's machine: three accounts with home folders, in a mount namespace where nothing of the real system changes.

As root the accounts are users of their own: their names stand in an /etc/passwd that only this namespace sees. Without
root all are one user, whom nbgrader tells apart by JupyterHub's name for them.
"""

import os
import subprocess
import sys
from pathlib import Path

import hubsetup

CLASS = Path("/srv/class")
ACCOUNTS = {"grace": 61001, "ada": 61002, "bob": 61003}
IS_ROOT = os.geteuid() == 0


def closed(path):
    """Return the topmost folder above ``path`` that other users cannot enter, None where there is none."""
    parents = [*reversed(path.parents), path]
    return next((each for each in parents if not each.stat().st_mode & 0o001), None)


class Machine:
    """Runs commands as root or as one of the accounts; ``folder`` is what they see as /srv/class."""

    def __init__(self, folder, installed):
        self.folder, self.installed = folder, installed
        for name, number in ACCOUNTS.items():
            home = folder / "home" / name
            home.mkdir(parents=True)
            home.chmod(0o700)
            if IS_ROOT:
                os.chown(home, number, number)
        (folder / "hub").mkdir()
        folder.chmod(0o755)
        (folder / "home").chmod(0o755)
        lines = [f"{name}:x:{n}:{n}::{CLASS}/home/{name}:/bin/sh" for name, n in ACCOUNTS.items()]
        groups = [f"{name}:x:{n}:" for name, n in ACCOUNTS.items()]
        if not IS_ROOT:  # under this very name nbgrader asks JupyterHub who is there
            lines, groups = [f"jovyan:x:{os.getuid()}:{os.getgid()}::{CLASS}:/bin/sh"], [f"jovyan:x:{os.getgid()}:"]
        (folder / "passwd").write_text("\n".join(["root:x:0:0:root:/root:/bin/sh", *lines]) + "\n")
        (folder / "group").write_text("\n".join(["root:x:0:", *groups]) + "\n")

    def _namespace(self):
        """The real system, with the class at its place; folders on the way to Python are made passable for all."""
        needed = [Path(sys.base_prefix), Path(sys.prefix), hubsetup.ROOT, self.installed]
        shut = {path: closed(path) for path in needed}
        # A PID namespace of its own: what a command started, however deep, ends with it.
        words = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"]
        if IS_ROOT:
            words += ["--cap-add", "ALL"]
        for folder in sorted({each for each in shut.values() if each is not None}):
            words += ["--tmpfs", str(folder)]
        for path, folder in shut.items():
            if folder is not None:
                for between in reversed([each for each in path.parents if folder in each.parents]):
                    words += ["--perms", "0755", "--dir", str(between)]
                words += ["--ro-bind", str(path), str(path)]
        words += ["--tmpfs", "/srv", "--bind", str(self.folder), str(CLASS)]
        for name in ("passwd", "group"):
            words += ["--ro-bind", str(self.folder / name), f"/etc/{name}"]
        return words

    def command(self, *words, user=None):
        """Return a command line that runs ``words`` on the machine, as an account or as the superuser."""
        become = []
        if user is not None and IS_ROOT:
            number = str(ACCOUNTS[user])
            become = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups"]
        return [*self._namespace(), "--chdir", str(CLASS / "hub" if user is None else self.home(user)), *become, *words]

    def home(self, user):
        """The home folder of an account, as the machine sees it."""
        return CLASS / "home" / user

    def environment(self, user=None):
        """The variables of a login: nothing of whoever runs the tests."""
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
        home = str(self.home(user) if user else CLASS / "hub")
        names = {"JUPYTERHUB_USER": user, "USER": user, "JUPYTER_CONFIG_PATH": str(CLASS / "jupyter")} if user else {}
        return kept | hubsetup.search_path(self.installed) | {"HOME": home, "ROOFLAB_DEVICE": "cpu"} | names

    def run(self, user, *words, folder=None):
        """Run a command as an account, in a folder of its home; it has to succeed; returns what it said."""
        command = self.command(*words, user=user)
        if folder is not None:
            command[command.index("--chdir") + 1] = str(self.home(user) / folder)
        done = subprocess.run(
            command, env=self.environment(user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        return done.stdout
