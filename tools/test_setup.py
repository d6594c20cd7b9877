"""What do the tests need from the system? What is missing is installed where that is possible (`make test`).

>>> reason_not_to_install(is_root=False, apt="/usr/bin/apt-get")
'this is not root'
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

# program that the tests call -> (Debian package, what is tested with it)
NEEDED = {
    "chromium": ("chromium", "JupyterLab in a browser"),
    "bwrap": ("bubblewrap", "the sandbox of the grader"),
    "node": ("nodejs", "a class in JupyterHub"),
    "npm": ("npm", "a class in JupyterHub"),
}


def reason_not_to_install(*, is_root: bool, apt: str | None) -> str:
    """Say why Debian packages cannot be installed here; empty when they can."""
    if apt is None:
        return "there is no apt-get"
    return "" if is_root else "this is not root"


def install(packages: list[str]) -> str:
    """Install Debian packages; returns the last words of apt-get when it fails."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    commands = (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages])
    for command in commands:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
    return "" if done.returncode == 0 else " / ".join(done.stdout.strip().splitlines()[-3:])


def main() -> int:
    """Install what is missing, and say aloud which tests will be skipped where that cannot be done."""
    missing = {program: NEEDED[program] for program in NEEDED if shutil.which(program) is None}
    if not missing:
        return 0
    packages = [package for package, _ in missing.values()]
    reason = reason_not_to_install(is_root=os.geteuid() == 0, apt=shutil.which("apt-get"))
    if not reason:
        print(f"Installing for the tests: {', '.join(packages)}", flush=True)
        reason = install(packages)
    for program, (package, purpose) in missing.items():
        if shutil.which(program) is None:
            print(f"Tests of {purpose} will be skipped: {package} is missing, and {reason}.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
