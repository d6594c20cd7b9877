"""Does a notebook run from top to bottom, how long does each cell take, and how much memory does it need?

>>> execute(Path("no_such_unit.ipynb"), Path("."))
Traceback (most recent call last):
FileNotFoundError: There is no notebook no_such_unit.ipynb: build it with `make build`, or check the name.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .extras import require
from .files import OutputError, output_folder, write_atomic
from .nbkernel import Failure, NotebookRun, kernel_environment
from .progress import Progress
from .scratch import scratch_folder

__all__ = ["CELL_TIMEOUT_S", "Execution", "Failure", "execute", "read_notebook", "require_runner"]

CELL_TIMEOUT_S = 300.0
_TICK_S = 0.2


@dataclass(frozen=True)
class Execution:
    """One run of one notebook.

    Attributes:
        name: the notebook's name without its ending.
        source: the notebook that was run (it is never changed).
        path: the executed notebook, complete or up to the cell that failed.
        notebook: the same as an nbformat node.
        seconds: wall time from the start of the kernel to its end.
        cell_seconds: wall time of each code cell that ran, in order.
        cells: number of code cells in the notebook.
        peak_memory_bytes: the most that the kernel and its children held; None where it cannot be known.
        errors: empty when every cell ran.
    """

    name: str
    source: Path
    path: Path
    notebook: Any = field(repr=False)
    seconds: float
    cell_seconds: tuple[float, ...]
    cells: int
    peak_memory_bytes: int | None
    errors: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every cell ran without an error."""
        return not self.errors


def require_runner() -> None:
    """Say in one sentence what is missing to run notebooks.

    Raises:
        MissingExtra: nbclient, ipykernel or nbformat is not installed.
    """
    require("lab", "nbclient", "ipykernel", "nbformat")


def read_notebook(path: Path) -> Any:
    """Read a notebook as an nbformat node (version 4).

    Raises:
        FileNotFoundError, ValueError: there is no such file, or it holds no notebook.
    """
    require("lab", "nbformat")
    import nbformat

    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no notebook {path}: build it with `make build`, or check the name.")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
        notebook = nbformat.reads(text, as_version=4)
        for number, cell in enumerate(notebook.cells, 1):
            if not isinstance(cell.get("source"), str) or "cell_type" not in cell:
                raise ValueError(f"cell {number} has no type or no source")
        return notebook
    except Exception as error:
        raise ValueError(f"{path} is not a notebook: {' '.join(str(error).split())[:200]}") from error


def execute(
    source: Path,
    output: Path,
    *,
    timeout_s: float = CELL_TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
    progress: bool = True,
) -> Execution:
    """Run a notebook in a fresh kernel of the running interpreter and save it with its outputs.

    Args:
        source: the notebook; it is read only.
        output: the folder into which the executed notebook is written, under the same name.
        timeout_s: the longest that one cell may take, in seconds.
        environment: variables for the kernel, beside ROOFLAB_HEADLESS=1.
        progress: show a bar (a line every few seconds where standard error is no terminal).

    Returns:
        An `Execution`. A cell that raises, takes too long or kills the kernel ends the run and is told in `errors`;
        the cells before it keep their outputs.

    Raises:
        MissingExtra: nbclient or ipykernel is not installed.
        OutputError: the output folder cannot be written to (found out before the run).
        KeyboardInterrupt: stopped; after the kernel was shut down and the cells so far were saved, as
            ``name.interrupted.ipynb`` beside the executed notebook of an earlier run.
    """
    require_runner()
    import nbformat

    notebook = read_notebook(source)
    source = Path(source).absolute()
    target = output_folder(Path(output)) / source.name
    if target.resolve() == source.resolve():
        raise OutputError(
            f"{target} is the notebook itself, which is not overwritten: give another folder with --output."
        )
    with scratch_folder("kernel") as folder:
        run = NotebookRun(
            source,
            notebook,
            timeout_s=math.ceil(timeout_s),
            env=kernel_environment(environment or {}, folder),
            scratch=folder,
        )
        bar = Progress(run.name, run.cells) if progress else None
        start = time.monotonic()
        interrupted = _watch(run, bar)
        seconds = time.monotonic() - start
    if interrupted:  # what an earlier run completed stays
        target = target.with_name(f"{target.stem}.interrupted.ipynb")
    write_atomic(target, nbformat.writes(notebook))
    if bar is not None:
        bar.close("interrupted" if interrupted else "FAILED" if run.errors else f"{run.cells} cells")
    if interrupted:
        raise KeyboardInterrupt(f"{run.name}: stopped in code cell {run.number} of {run.cells}; saved as {target}")
    return Execution(
        name=run.name,
        source=source,
        path=target,
        notebook=notebook,
        seconds=seconds,
        cell_seconds=tuple(run.cell_seconds),
        cells=run.cells,
        peak_memory_bytes=run.memory.peak_bytes if run.memory else None,
        errors=tuple(run.errors),
    )


def _watch(run: NotebookRun, bar: Progress | None) -> bool:
    """Run in a second thread while this one shows the progress; True when Ctrl-C ended it.

    The second thread lets this work inside a notebook too, whose own thread already runs an event loop.
    """
    thread = threading.Thread(target=run.main, name=f"run {run.name}", daemon=True)
    thread.start()
    try:
        while not run.done.wait(_TICK_S):  # not join(): a Ctrl-C inside it marks a living thread as ended
            if run.memory is not None:
                run.memory.sample()
            if bar is not None:
                if run.number != bar.current:
                    bar.step(run.number)
                bar.tick()
    except KeyboardInterrupt:
        run.cancel()
        if not run.done.wait(15):
            run.kill()
        return True
    thread.join()
    if run.crash is not None:
        raise run.crash
    return False
