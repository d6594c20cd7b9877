import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import pytest

from rooflab import stopping
from rooflab.book import open_book
from rooflab.scratch import remove_stale, scratch_folder

from .processes import alive, wait_for

SHARED = Path(stopping.__file__).resolve().parents[1]
NOTE_PID = "import os, pathlib, time\npathlib.Path('pid.part').write_text(str(os.getpid()))\n"
NOTE_PID += "os.rename('pid.part', 'pid')\n"
STOPPING = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, for this process and those that it starts."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def start(*arguments, folder):
    """Start the command line and wait until a notebook in the folder has written its process number."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rooflab", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SHARED)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: (folder / "pid").exists() or process.poll() is not None, 300)
    assert process.poll() is None, process.communicate()
    return process, int((folder / "pid").read_text())


@pytest.mark.parametrize(("number", "code"), STOPPING, ids=lambda each: getattr(each, "name", ""))
def test_a_stopped_run_ends_its_kernel_and_keeps_what_has_run(notebook, tmp_path, temporary, number, code):
    source = notebook("long", "print('kept')", f"{NOTE_PID}time.sleep(600)")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "long.ipynb").write_text("an earlier run's")
    process, kernel = start("run", source, "--output", tmp_path / "out", folder=tmp_path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == code
    saved = tmp_path / "out" / "long.interrupted.ipynb"
    assert errors.rstrip().endswith(f"long: stopped in code cell 2 of 2; saved as {saved}")
    assert "Traceback" not in errors
    assert "kept" in saved.read_text()
    assert (tmp_path / "out" / "long.ipynb").read_text() == "an earlier run's"
    assert not alive(kernel)
    assert list(temporary.glob("rooflab-*")) == []


def test_a_second_signal_does_not_disturb_the_cleaning_up(notebook, tmp_path, temporary):
    # A kernel that does not listen makes the end last a moment.
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    source = notebook("long", f"{deaf}{NOTE_PID}while True: time.sleep(1)")
    process, kernel = start("run", source, "--output", tmp_path / "out", folder=tmp_path)
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert (tmp_path / "out" / "long.interrupted.ipynb").is_file()
    assert not alive(kernel)
    assert list(temporary.glob("rooflab-*")) == []


def test_a_killed_run_leaves_no_kernel_and_the_next_one_removes_its_files(notebook, tmp_path, temporary):
    source = notebook("long", f"{NOTE_PID}time.sleep(600)")
    process, kernel = start("run", source, "--output", tmp_path / "out", folder=tmp_path)
    process.kill()
    process.communicate()
    wait_for(lambda: not alive(kernel))
    (left,) = temporary.glob("rooflab-*")
    assert remove_stale() == []  # too young to be sure
    assert remove_stale(older_than_s=0) == [left]
    assert not left.exists()


def test_a_stopped_tour_reports_and_leaves_nothing(book_folder, tmp_path, temporary):
    path = book_folder / "chapters" / "s9_demo" / "u1_demo.ipynb"
    cells = json.loads(path.read_text())
    cells["cells"][-2]["source"] = [f"{NOTE_PID}time.sleep(600)"]
    path.write_text(json.dumps(cells))
    process, kernel = start("tour", "--no-open", folder=path.parent)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=200)
    assert process.returncode == 143
    assert "Traceback" not in errors
    assert "u1_demo: stopped in code cell" in errors
    assert out.rstrip().endswith(f"The report: {book_folder / '.rooflab' / 'tour' / 'report-interrupted.html'}")
    assert not alive(kernel)
    assert list(temporary.glob("rooflab-*")) == []


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_grading_that_is_stopped_leaves_no_process(book_folder, tmp_path, temporary, how):
    part, pid = str(tmp_path / "part"), str(tmp_path / "pid")
    code = (
        f"import os, time; open({part!r}, 'w').write(str(os.getpid())); os.rename({part!r}, {pid!r}); time.sleep(600)"
    )
    lab = open_book().labs[0]
    for path in (lab.path, lab.solution):
        path.write_text(path.read_text().replace("import sys", code, 1))
    code = (
        "import pathlib, sys; from rooflab import book, classroom, stopping\n"
        "with stopping.stop_on_signals():\n"
        "    classroom.grade_lab(pathlib.Path('.'), book.open_book().labs[0], progress=False)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SHARED)}, stderr=subprocess.PIPE
    )
    wait_for((tmp_path / "pid").exists, 300)
    kernel = int((tmp_path / "pid").read_text())
    driver = int(Path(f"/proc/{kernel}/stat").read_text().rsplit(")", 1)[1].split()[1])
    process.send_signal(signal.SIGTERM if how == "stopped" else signal.SIGKILL)
    process.communicate(timeout=200)
    if how == "stopped":
        assert not alive(driver)
        assert not alive(kernel)
        assert list(temporary.glob("rooflab-*")) == []
    wait_for(lambda: not alive(driver) and not alive(kernel))


def test_a_folder_in_use_is_not_stale(temporary):
    with scratch_folder("a") as folder:
        assert remove_stale(older_than_s=0) == []
        assert folder.is_dir()
    assert not folder.exists()


def test_a_kernel_that_cannot_be_asked_to_end_is_killed_anyway():
    child = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    )
    child += "print(p.pid, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
    inner = int(process.stdout.readline())
    stopping.kill_tree(process)
    process.stdout.close()
    wait_for(lambda: not alive(inner))
    assert process.returncode == -signal.SIGKILL
    stopping.kill_tree(process)  # twice does no harm


def test_no_place_for_temporary_files_is_one_sentence(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(OSError, match=r"Temporary files cannot be written to .*: the disk is full\. .* set TMPDIR"), \
            scratch_folder("x"):  # fmt: skip
        pass


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping.stop_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("module", ["rooflab.cli", "numpy", "argparse"])
def test_a_signal_while_the_command_loads_is_one_sentence(module):
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from rooflab.__main__ import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SHARED)}, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "rooflab: Stopped by Ctrl-C.\n")


@pytest.mark.parametrize(
    ("arguments", "code"), [(["speedrun", "--list"], 0), (["run", "nowhere"], 2), (["nothing"], 2)]
)
def test_a_signal_while_the_interpreter_goes_changes_no_exit_code(arguments, code):
    # One when threads have ended, one when modules are torn down, at which Python gives signals back to the system.
    script = (
        "import atexit, os, signal, sys\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT): kill(pid, number)\n"
        "sys.late = Late()\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "from rooflab.__main__ import main\n"
        f"sys.argv = ['rooflab', *{arguments}]\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(SHARED)}, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_signal_while_the_first_is_told_changes_neither_sentence_nor_code(monkeypatch):
    from rooflab import cli

    def stopped(options):
        signal.raise_signal(signal.SIGTERM)

    class Interrupted(io.StringIO):
        def write(self, text):
            signal.raise_signal(signal.SIGINT)
            return super().write(text)

    monkeypatch.setattr(cli, "_device", stopped)
    monkeypatch.setattr(sys, "stderr", told := Interrupted())
    monkeypatch.setattr(os, "_exit", lambda code: None)  # each further one would end all at once
    assert cli.main(["device"]) == 143
    assert told.getvalue() == "rooflab: Stopped by SIGTERM.\n"


def test_the_installed_command_is_the_one_that_catches_it():
    with (SHARED.parent / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["scripts"] == {"rooflab": "rooflab.__main__:main"}


def test_a_signal_that_python_drops_in_a_destructor_stops_all_the_same():
    class Dying:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def sleep(make):
        make()
        wait_for(lambda: False, 20)

    with pytest.raises(KeyboardInterrupt), stopping.stop_on_signals():
        sleep(Dying)
    assert stopping.exit_code() == 143
