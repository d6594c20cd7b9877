"""Is the checkout in order? Generated files, layout rules, lint, format and types, side by side (`make check`).

>>> [part.name for part in PARTS][:2]
['notebooks match their scripts', 'README matches the book']
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import children

ROOT = Path(__file__).resolve().parent.parent

RUNNING: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class Part:
    """One thing to check: the command that checks it, and what mends it."""

    name: str
    command: tuple[str, ...]
    remedy: str = ""


# The slowest first: two run at a time.
PARTS = (
    Part("notebooks match their scripts", ("tools/build.py", "--check"), "make build"),
    Part("README matches the book", ("tools/readme.py", "--check"), "make build"),
    Part("types (mypy)", ("-m", "mypy", "--no-error-summary")),
    Part("layout rules", ("-m", "pytest", "-q", "--no-header", "--tb=line", "tests/layout")),
    Part("lint (ruff)", ("-m", "ruff", "check", "--quiet", "--output-format", "concise", "."), "ruff check --fix ."),
    Part("format (ruff)", ("-m", "ruff", "format", "--check", "--output-format", "concise", "."), "ruff format ."),
)


def run(part: Part) -> tuple[Part, int, float, str]:
    """Run one part; its output is kept, and shown only when it fails."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *part.command], cwd=ROOT, env=os.environ | {"PYTHONUTF8": "1"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        RUNNING.add(process)
        output, _ = process.communicate()
    RUNNING.discard(process)
    return part, process.returncode, time.perf_counter() - began, output.strip()


def stop(pool: ThreadPoolExecutor) -> None:
    """End what runs, each part with all that it started, and begin no other."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in list(RUNNING):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    """Print a line for each part as it ends, then the output of those that failed."""
    began = time.perf_counter()
    failures = []
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 1)) as pool:
        try:
            for future in as_completed([pool.submit(run, part) for part in PARTS]):
                part, code, seconds, output = future.result()
                print(f"{'ok  ' if code == 0 else 'FAIL'}  {seconds:5.1f} s  {part.name}", flush=True)
                if code:
                    failures.append((part, output))
        except (KeyboardInterrupt, BrokenPipeError):  # Ctrl-C, SIGTERM; or `head` has read enough
            stop(pool)
            raise
    for part, output in failures:
        print(f"\n--- {part.name}" + (f" (mend it with: {part.remedy})" if part.remedy else "") + f"\n{output}")
    verdict = "all in order" if not failures else f"{len(failures)} of {len(PARTS)} parts failed"
    print(f"\n{verdict} ({time.perf_counter() - began:.0f} s)")
    return 1 if failures else 0


def command_line() -> int:
    """Return the exit status; Ctrl-C, SIGTERM and a reader that has read enough end it without a trace."""
    children.stop_on_signals()
    try:
        return main()
    except KeyboardInterrupt as stopped:
        print("Stopped.", file=sys.stderr)
        return 128 + int(stopped.args[0])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


if __name__ == "__main__":
    sys.exit(command_line())
