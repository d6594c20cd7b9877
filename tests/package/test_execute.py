import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rooflab import execute as module
from rooflab.execute import execute
from rooflab.extras import MissingExtra, require
from rooflab.files import OutputError, output_folder, write_atomic
from rooflab.footprint import Footprint
from rooflab.progress import Progress, clock_time

from .processes import alive, wait_for

SHARED = Path(module.__file__).resolve().parents[1]


def outputs(run, number):
    cells = [cell for cell in run.notebook.cells if cell.cell_type == "code"]
    return "".join(output.get("text", "") for output in cells[number - 1].outputs)


def test_every_cell_runs_headless_in_the_notebook_s_folder(notebook, tmp_path):
    source = notebook(
        "good",
        "# Title",
        "import os, sys\n"
        "print(os.environ['ROOFLAB_HEADLESS'], os.environ['MINE'], os.getcwd(), sys.executable, sep='\\n')",
        "x = bytearray(b'1') * 200_000_000",
        "import rooflab; print(rooflab.__file__)",
    )
    before = source.read_bytes()
    run = execute(source, tmp_path / "out", environment={"MINE": "yes"}, progress=False)
    assert run.ok
    assert outputs(run, 1).splitlines() == ["1", "yes", str(tmp_path), sys.executable]
    assert outputs(run, 3).strip() == str(SHARED / "rooflab" / "__init__.py")
    assert run.cells == len(run.cell_seconds) == 3
    assert 0 < sum(run.cell_seconds) <= run.seconds
    assert run.path == tmp_path / "out" / "good.ipynb"
    assert [c["execution_count"] for c in json.loads(run.path.read_text())["cells"] if "outputs" in c] == [1, 2, 3]
    assert source.read_bytes() == before
    if sys.platform.startswith("linux"):
        assert run.peak_memory_bytes > 200_000_000


def test_a_cell_that_raises_is_named_and_the_cells_before_it_are_kept(notebook, tmp_path):
    source = notebook("bad", "# T", "print('kept')", "\n# divide\n1 / 0", "print('never')")
    run = execute(source, tmp_path / "out", progress=False)
    assert not run.ok
    assert str(run.errors[0]) == "bad, code cell 2 of 3 (# divide): ZeroDivisionError: division by zero"
    saved = json.loads(run.path.read_text())["cells"]
    assert saved[1]["outputs"][0]["text"] == ["kept\n"]
    assert saved[2]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert saved[3]["outputs"] == []


def test_a_message_of_several_lines_is_told_on_one(notebook, tmp_path):
    run = execute(notebook("bad", "raise AssertionError('expected: 1\\n  found: 2')"), tmp_path / "out", progress=False)
    assert run.errors[0].message == "AssertionError: expected: 1 found: 2"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(3)", "the kernel died with exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "most likely the machine ran out of memory"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", f"by signal {signal.SIGABRT.value}"),
    ],
)
def test_a_kernel_that_dies_is_told_apart(notebook, tmp_path, code, said):
    run = execute(notebook("dies", "1", code, "2"), tmp_path / "out", progress=False)
    assert [error.cell for error in run.errors] == [2]
    assert said in run.errors[0].message
    assert run.path.is_file()


def test_a_cell_that_takes_too_long_is_stopped_with_all_that_it_started(notebook, tmp_path):
    code = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('pid').write_text(str(child.pid))\n"
        "time.sleep(600)"
    )
    run = execute(notebook("slow", code), tmp_path / "out", timeout_s=10, progress=False)
    assert run.errors[0].message == "the cell took longer than 10 s and was stopped"
    if sys.platform.startswith("linux"):
        wait_for(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_the_running_interpreter_is_the_kernel_whatever_is_installed(notebook, tmp_path, monkeypatch):
    kernels = tmp_path / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps({"argv": ["/no/such/python"], "display_name": "x"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("HOME", "/dev/null/no-home")
    run = execute(notebook("k", "import sys; print(sys.executable)"), tmp_path / "out", progress=False)
    assert outputs(run, 1).strip() == sys.executable


def test_it_works_while_an_event_loop_runs_as_in_a_notebook(notebook, tmp_path):
    source = notebook("inner", "print(1)")

    async def outer():
        return execute(source, tmp_path / "out", progress=False)

    assert asyncio.run(outer()).ok


def test_a_kernel_that_cannot_start_says_why(notebook, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", sys.executable)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "ipykernel_launcher.py").write_text("raise SystemExit('no kernel today')")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    run = execute(notebook("never", "1"), tmp_path / "out", progress=False)
    assert str(run.errors[0]) == "never: the kernel did not start: no kernel today"


def test_an_output_folder_that_is_a_file_is_found_out_before_the_run(notebook, tmp_path):
    (tmp_path / "file").write_text("")
    source = notebook("side", "open('ran', 'w').close()")
    with pytest.raises(OutputError, match="a file stands where a folder is needed: choose another folder"):
        execute(source, tmp_path / "file", progress=False)
    assert not (tmp_path / "ran").exists()


def test_what_is_no_notebook_is_said_to_be_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no notebook"):
        execute(tmp_path / "none.ipynb", tmp_path)
    (tmp_path / "text.ipynb").write_text("# not JSON")
    with pytest.raises(ValueError, match=r"text\.ipynb is not a notebook"):
        execute(tmp_path / "text.ipynb", tmp_path)


def test_a_byte_order_mark_is_passed_over(notebook, tmp_path):
    source = notebook("marked", "print(1)")
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    assert outputs(execute(source, tmp_path / "out", progress=False), 1) == "1\n"


def test_a_missing_extra_is_one_sentence(notebook, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nbclient", None)
    with pytest.raises(MissingExtra) as caught:
        execute(notebook("n", "1"), tmp_path)
    assert str(caught.value) == 'This needs the package nbclient: pip install "rooflab[lab]"'
    require("lab", "json")


def test_without_a_terminal_progress_is_a_line_every_few_seconds():
    now = [0.0]
    stream = io.StringIO()
    bar = Progress("unit", 3, stream=stream, every_s=5, clock=lambda: now[0])
    for second in range(12):
        now[0] = second
        bar.step(1 + second // 4)
        bar.tick()
    bar.close("3 cells")
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert lines == [
        "unit cell 1 of 3 0:00",
        "unit cell 2 of 3 0:05",
        "unit cell 3 of 3, 2 s 0:10",
        "unit 3 cells 0:11",
    ]


def test_on_a_terminal_progress_is_a_bar_that_leaves_one_line():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    bar = Progress("unit", 2, stream=stream)
    bar.step(2)
    bar.close("2 cells")
    shown = stream.getvalue()
    assert "unit" in shown
    assert "cell 2 of 2" in shown
    assert "|" in shown
    assert shown.rsplit("\r", 1)[-1].split() == ["unit", "2", "cells", "0:00"]
    assert clock_time(3671) == "61:11"


def test_a_process_that_is_gone_has_no_footprint():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    watch = Footprint(process.pid)
    before = watch.sample()
    process.communicate(b"\n")
    assert watch.sample() == before == watch.peak_bytes
    assert Footprint(process.pid).sample() is None


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    target = write_atomic(tmp_path / "report.html", "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match=r"Cannot write .*report\.html: the disk is full"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_folder_is_made_where_there_is_none(tmp_path):
    assert output_folder(tmp_path / "a" / "b").is_dir()
    assert os.listdir(tmp_path / "a" / "b") == []
