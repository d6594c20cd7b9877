"""Make .venv from requirements.lock, or find in a moment that it is ready (every target of the Makefile calls this).

Only the standard library, and syntax that any Python since 3.6 can read: an old one must be able to say that it is old.
The stamp .venv/.ready is written last. An environment without a stamp was left half-made and is made again.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

import children

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, ".ready")
LOG = os.path.join(ROOT, ".artifacts", "install.log")
SOURCES = ("requirements.lock", "requirements-cuda.lock", "pyproject.toml")
OLDEST, NEWEST = (3, 11), (3, 13)
CANDIDATES = ("python3", "python3.13", "python3.12", "python3.11", "python")
NEEDED_GB = 4  # the CPU set is 3.2 GB; one with CUDA libraries takes about twice that

# What pip prints -> what a person should read.
CAUSES = (
    (r"No space left on device|Errno 28", f"The disk is full: free about {NEEDED_GB} GB and run it again."),
    (
        r"Temporary failure in name resolution|Name or service not known|nodename nor servname|Network is unreachable"
        r"|NewConnectionError|Connection refused|ProxyError|ConnectTimeout|Max retries exceeded|ReadTimeout",
        "The package index cannot be reached: connect to the network (or check the proxy) and run it again.",
    ),
    (r"Permission denied|Read-only file system", "The checkout cannot be written: make it yours and run it again."),
    (r"THESE PACKAGES DO NOT MATCH THE HASHES", "A download arrived damaged: run it again."),
)


class Failed(Exception):
    """One sentence for the person who ran make."""


def dotted(version):
    """Write a version tuple as people do."""
    return ".".join(str(part) for part in version[:3])


def probe(command):
    """Return (version, path) of a Python that can make environments, or (version, None) of one that cannot."""
    code = (
        "import sys; v = sys.version_info[:3]\n"
        "try:\n import venv, ensurepip; ok = 1\n"
        "except ImportError: ok = 0\n"
        "print('%d.%d.%d' % v, ok, sys.executable)"
    )
    try:
        found = subprocess.run([command, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        version, able, path = found.stdout.decode().strip().split(" ", 2)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return tuple(int(part) for part in version.split(".")), path if able == "1" else None


def find_python():
    """Return (version, path) of the first Python that serves; explain what was found when none does."""
    wanted = os.environ.get("ROOFLAB_PYTHON")
    seen = []
    for name in (wanted,) if wanted else (sys.executable, *CANDIDATES):
        found = probe(name)
        if found is None:
            continue
        version, path = found
        if OLDEST <= version[:2] <= NEWEST and path:
            return found
        seen.append(found)
    if wanted and not seen:
        raise Failed(f"ROOFLAB_PYTHON is {wanted!r}, and no Python runs there: name one of 3.11, 3.12 or 3.13.")
    old = ", ".join(sorted({dotted(version) for version, _ in seen})) or "none"
    if any(OLDEST <= version[:2] <= NEWEST for version, _ in seen):
        raise Failed(f"Python {old} lacks its venv module: install it (Debian and Ubuntu: apt install python3-venv).")
    raise Failed(
        f"Rooflab needs Python 3.11, 3.12 or 3.13; found: {old}. Install one of them, or name one: "
        "make ROOFLAB_PYTHON=/path/to/python3"
    )


def fingerprint(version):
    """Return what the environment depends on, hashed: the pins, the project's metadata, Python."""
    digest = hashlib.sha256()
    for name in SOURCES:
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    digest.update(dotted(version).encode())
    return digest.hexdigest()


def stamped():
    """Return the stamp's (fingerprint, version), or None when there is none to trust: none, or of another folder."""
    try:
        with open(STAMP, encoding="utf-8", errors="surrogateescape") as file:
            digest, version, root = file.read().rstrip("\n").split(" ", 2)
        if root != ROOT:
            return None
        # The interpreter behind the link may have been removed since.
        os.stat(os.path.join(VENV, "bin", "python"))
        return digest, tuple(int(part) for part in version.split("."))
    except (OSError, ValueError):
        return None


def is_ready():
    """Tell whether the environment was finished from these very files."""
    found = stamped()
    return found is not None and found[0] == fingerprint(found[1])


def pins():
    """Return the number of packages that the lock names."""
    with open(os.path.join(ROOT, "requirements.lock"), encoding="utf-8") as file:
        return sum(1 for line in file if "==" in line and not line.startswith("#"))


def installed():
    """Return how many packages have arrived in the environment so far."""
    for folder, folders, _ in os.walk(os.path.join(VENV, "lib")):
        if os.path.basename(folder) == "site-packages":
            return sum(1 for name in folders if name.endswith(".dist-info"))
    return 0


def show(text, final=False):
    """Write a progress line: in place on a terminal, a line now and then elsewhere."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write("\r" + text[:width].ljust(width) + ("\n" if final else ""))
    elif final or time.time() - show.last > 15:
        show.last = time.time()
        sys.stdout.write(text + "\n")
    sys.stdout.flush()


show.last = 0.0


def progress(total, began, fetched, last):
    """Describe where an installation is."""
    minutes, seconds = divmod(int(time.time() - began), 60)
    verb, count, what = ("installing", installed(), "") if last == "install" else ("fetching", fetched, last)
    return f"[{minutes}:{seconds:02d}] {verb}: {min(count, total)} of {total} packages {what}".rstrip()


def follow(process, total, began, position):
    """Show pip's progress, read from its log, until it ends."""
    fetched, last = set(), ""
    with open(LOG, encoding="utf-8", errors="replace") as log:
        log.seek(position)
        while True:
            ended = process.poll() is not None
            for line in log.readlines():
                found = re.match(r"\s*(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)", line)
                if found:
                    last = re.split(r"[=<>!~]", found.group(1))[0]
                    fetched.add(last.lower())
                elif line.startswith("Installing collected packages"):
                    last = "install"
            if ended:
                return
            if total:
                show(progress(total, began, len(fetched), last))
            time.sleep(0.3)


def run(arguments, total, began):
    """Run pip in the new environment; its words go to the log."""
    options = ["--no-input", "--progress-bar", "off"]
    if os.environ.get("PIP_RETRIES", "").strip() == "0":
        options += ["--retries", "1"]  # pip names the network as the cause only when it tries again
    python = os.path.join(VENV, "bin", "python")
    with open(LOG, "a") as log:
        position = log.tell()
        log.flush()
        with children.module(python, ["pip", "install", *options, *arguments], cwd=ROOT, stdout=log) as process:
            follow(process, total, began, position)
    if process.returncode:
        explain(position)


def explain(position):
    """Turn pip's failure into one sentence, with the last lines of its log where the cause is not a known one."""
    with open(LOG, encoding="utf-8", errors="replace") as log:
        log.seek(position)
        text = log.read()
    for pattern, sentence in CAUSES:
        if re.search(pattern, text):
            raise Failed(f"{sentence} (pip's own words: {LOG})")
    tail = "\n  ".join(text.strip().splitlines()[-12:])
    raise Failed(f"pip failed; the last lines of {LOG}:\n  {tail}")


def clear():
    """Remove what a broken attempt left, whatever it is."""
    if os.path.islink(VENV) or os.path.isfile(VENV):
        os.unlink(VENV)
    elif os.path.isdir(VENV):
        shutil.rmtree(VENV)


def stamp(text):
    """Say that the environment is finished; the stamp is there whole or not at all."""
    with open(STAMP + ".part", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(STAMP + ".part", STAMP)


def began_to_change():
    """Whether pip came so far as to change packages, by its log."""
    with open(LOG, encoding="utf-8", errors="replace") as log:
        return "Installing collected packages" in log.read()


def build(version, python):
    """Make the environment, or bring a finished one to the present lock."""
    began = time.time()
    total = pins()
    known, old = stamped(), None
    if known is not None and known[1] == version and os.access(os.path.join(VENV, "bin", "pip"), os.X_OK):
        with open(STAMP, encoding="utf-8", errors="surrogateescape") as file:
            old = file.read()
        os.unlink(STAMP)
        print("Bringing .venv up to date with requirements.lock")
    else:
        if os.path.lexists(VENV):
            print("Making .venv again: it was left half-made, or by another Python or folder")
            clear()
        free = shutil.disk_usage(ROOT).free
        if free < NEEDED_GB * 1e9:
            raise Failed(f"The disk is nearly full: about {NEEDED_GB} GB are needed, {free / 1e9:.1f} GB are free.")
        if re.search(r"\s", ROOT):
            print(f"Note: the path {ROOT!r} has a space in it; torch.compile cannot build C++ there, all else works.")
        print(f"Making .venv with Python {dotted(version)} ({total} packages, once; log: {LOG})")
        show("[0:00] creating the environment")
        with children.module(python, ["venv", VENV], cwd=ROOT, stdout=subprocess.PIPE) as made:
            said = made.stdout.read()
        if made.returncode:
            raise Failed("Creating .venv failed: " + said.decode(errors="replace").strip()[-400:])
    try:
        run(["-r", "requirements.lock"], total, began)
    except (Failed, KeyboardInterrupt):
        # pip fetches everything before it changes anything: without a network the old environment is still whole.
        if old is not None and not began_to_change():
            stamp(old)
        raise
    show("adding the project itself")
    # hatchling is in the lock, so this step needs no network.
    run(["--no-deps", "--no-build-isolation", "-e", "."], 0, began)
    stamp(f"{fingerprint(version)} {dotted(version)} {ROOT}\n")
    show(f".venv is ready: {installed()} packages in {time.time() - began:.0f} s", final=True)


def main():
    """Return 0 with an environment that is ready, 1 after one sentence that says why there is none."""
    if is_ready():
        return 0
    children.stop_on_signals()
    try:
        # Two makes at once: the second waits, and finds the work done.
        with open(os.path.abspath(__file__)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_ready():
                version, python = find_python()
                os.makedirs(os.path.dirname(LOG), exist_ok=True)
                open(LOG, "w").close()
                build(version, python)
    except Failed as reason:
        sys.stderr.write(f"\n{reason}\n" if sys.stdout.isatty() else f"{reason}\n")
        return 1
    except KeyboardInterrupt as stopped:
        sys.stderr.write("\nStopped. The next make starts over.\n")
        return 128 + stopped.args[0]
    except OSError as reason:
        if reason.errno == 28:
            sys.stderr.write(f"The disk is full: free about {NEEDED_GB} GB and run it again.\n")
        else:
            sys.stderr.write(f"Making .venv failed: {reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
