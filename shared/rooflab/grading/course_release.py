"""How are the student editions of a course made, by nbgrader itself and away from the user's own Jupyter set-up?

    python -m rooflab.grading.course_release ASSIGNMENT ...     in the course folder

>>> reason_in("[INFO] Converting\\nRuntimeError: no such cell\\n")
'RuntimeError: no such cell'
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ..scratch import scratch_folder

__all__ = ["main", "reason_in", "release"]


def release(folder: Path, names: list[str]) -> None:
    """Make the student editions of some assignments and enter them in the gradebook, as nbgrader does.

    Raises:
        ValueError: nbgrader could not do it; its reason is told.
    """
    with scratch_folder("release") as scratch:
        command = [sys.executable, "-m", "rooflab.grading.course_release", *names]
        done = subprocess.run(
            command, cwd=folder, env=_environment(scratch), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
        )  # fmt: skip
    if done.returncode:
        raise ValueError(f"nbgrader could not make the student edition: {reason_in(done.stdout)}")


def _environment(scratch: Path) -> dict[str, str]:
    """Nothing of the user's own Jupyter set-up takes part, and nothing is written into the home folder."""
    package = str(Path(__file__).resolve().parents[2])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
        "PYTHONWARNINGS": "ignore",
        "PYTHONUTF8": "1",
        **{f"JUPYTER_{name}": str(scratch) for name in ("PATH", "CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")},
        "IPYTHONDIR": str(scratch),
    }


def reason_in(log: str) -> str:
    """The line of nbgrader's log that says why: the exception of its traceback, else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"(reason: |[\w.]*(Error|Exception)\b.*:)", line)]
    return (raised[-1:] or lines[-1:] or ["it said nothing"])[0].removeprefix("reason: ")[:300]


def main(names: list[str]) -> int:
    """Run ``nbgrader generate_assignment`` for each assignment, in this process."""
    from nbgrader.apps import NbGrader, NbGraderAPI
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config.loader import PyFileConfigLoader

    try:  # nbgrader would go on without it, and leave the model answers in
        PyFileConfigLoader("nbgrader_config.py", path=".").load_config()
    except Exception as error:
        print(f"reason: nbgrader_config.py cannot be used ({type(error).__name__}: {error}).")
        return 1
    app = NbGrader()
    app.initialize([])
    nbgrader = NbGraderAPI(CourseDirectory(parent=app), parent=app)
    for name in names:
        result = nbgrader.generate_assignment(name, force=True)
        print(result["log"], result.get("error", ""), flush=True)
        if not result["success"]:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
