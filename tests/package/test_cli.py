import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import pytest

from rooflab import cli, devicecard, tour
from rooflab.classroom import ExerciseScore, Grade, Grading
from rooflab.cli import main

SHARED = Path(cli.__file__).resolve().parents[1]
DESCRIBED = {
    "rooflab": "0.1.0",
    "device": {"device": "A fake chip", "kind": "cpu"},
    "versions": {"python": "3.11"},
    "ceilings": {"bytes_per_s": 2e10, "flops_per_s": {"fp32": 1e11}, "launch_s": 3e-6, "date": "2026-11-29"},
    "datasheet": None,
    "missing": ['nbgrader is not installed, so ...: pip install "rooflab[classroom]"'],
}


def rooflab(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "rooflab", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SHARED), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def graded(monkeypatch):
    """Stand in for nbgrader, which test_classroom runs."""
    written = ExerciseScore("why", "Why", 0, 4, written=True)
    blank, solved = (Grade(who, (ExerciseScore("middle", "Exercise 1", got, 5), written))
                     for who, got in (("blank", 0), ("solved", 5)))  # fmt: skip
    grading = Grading("s9_demo/lab1_demo", blank, solved, 9.0)
    monkeypatch.setattr(tour, "grade_lab", lambda root, lab: grading)


@pytest.fixture
def described(monkeypatch):
    """Stand in for the measurement of the ceilings."""
    asked = []
    monkeypatch.setattr(tour, "find_device_apart", lambda *, fresh: asked.append(fresh) or DESCRIBED)
    return asked


def break_unit(book_folder):
    path = book_folder / "chapters" / "s9_demo" / "u1_demo.ipynb"
    cells = json.loads(path.read_text())
    cells["cells"][-2]["source"] = ["1 / 0"]
    path.write_text(json.dumps(cells))


@pytest.mark.parametrize("command", [[], ["device"], ["tour"], ["run"], ["record"]])
def test_help_explains_every_command(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    assert f"usage: {' '.join(['rooflab', *command])}" in capsys.readouterr().out


def test_the_version_is_the_package_s(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"rooflab {cli.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["fly"], ["run"], ["run", "u1", "--edition", "teacher"], ["tour", "--speed"]]
)
def test_wrong_usage_is_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: rooflab" in capsys.readouterr().err


def test_an_unknown_unit_is_one_sentence_and_nothing_runs(book_folder, capsys):
    assert main(["run", "u1_demo", "u1_dmo"]) == 2
    told = capsys.readouterr()
    assert told.err == "rooflab: There is no unit 'u1_dmo'. Did you mean s9_demo/u1_demo or s9_demo/lab1_demo?\n"
    assert told.out == ""
    assert not (book_folder / ".rooflab").exists()


def test_with_debug_a_failure_shows_where_it_came_from(book_folder, monkeypatch):
    monkeypatch.setenv("ROOFLAB_DEBUG", "1")
    with pytest.raises(LookupError):
        main(["run", "nothing_like_it"])


def test_run_executes_units_and_labs(book_folder, capsys, monkeypatch):
    monkeypatch.setenv("ROOFLAB_HOME", str(book_folder / "home"))
    assert main(["run", "u1", "s9/lab1"]) == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()] == ["unit", "u1_demo", "lab1_demo", "Executed"]
    assert told.out.count(" ok") == 2
    folder = book_folder / ".rooflab" / "run" / "s9_demo"
    assert sorted(os.listdir(folder)) == ["lab1_demo.ipynb", "u1_demo.ipynb"]
    assert "✓ middle" in json.dumps(json.loads((folder / "lab1_demo.ipynb").read_text()), ensure_ascii=False)
    # Solutions that pass are no progress of the reader's.
    assert not (book_folder / "home" / "progress.json").exists()


def test_a_unit_that_fails_is_exit_code_1(book_folder, capsys):
    break_unit(book_folder)
    assert main(["run", "u1", "--output", "here"]) == 1
    told = capsys.readouterr()
    assert "1 of 2 |" in told.out or "2 of 2 |" in told.out
    assert "FAILED u1_demo, code cell " in told.err
    assert "ZeroDivisionError: division by zero" in told.err
    assert f"executed so far: {book_folder / 'here' / 's9_demo' / 'u1_demo.ipynb'}" in told.err


def test_the_student_s_edition_stops_at_the_first_exercise(book_folder, capsys):
    assert main(["run", "lab1", "--edition", "student"]) == 1
    assert "NotImplementedError" in capsys.readouterr().err


def test_the_path_of_a_notebook_means_that_notebook(book_folder, notebook, capsys):
    student = book_folder / "labs" / "s9_demo" / "lab1_demo.ipynb"
    assert main(["run", str(student)]) == 1
    other = notebook("mine", "print(1)")
    assert main(["run", str(other)]) == 0
    assert (book_folder / ".rooflab" / "run" / "mine.ipynb").is_file()


def test_a_lab_without_solutions_says_so(book_folder, capsys):
    shutil.rmtree(book_folder / "solutions")
    assert main(["run", "lab1"]) == 2
    assert "has no solution edition here" in capsys.readouterr().err


def test_an_output_folder_that_cannot_be_made_is_one_sentence(book_folder, capsys):
    (book_folder / "file").write_text("")
    assert main(["run", "u1", "--output", "file"]) == 1
    assert "a file stands where a folder is needed: choose another folder" in capsys.readouterr().err


def test_record_keeps_what_a_unit_logged(book_folder, notebook, capsys):
    unit = book_folder / "chapters" / "s9_demo" / "u2_log.ipynb"
    code = "from rooflab import logbook\nlogbook.begin('s9_demo/u2_log')\nlogbook.log('copy', 2.5e10)"
    notebook("log", "# Logs", code).rename(unit)
    assert main(["record", "u2_log"]) == 0
    assert "recorded records/" in capsys.readouterr().out
    [path] = (book_folder / "records").glob("*/u2_log.json")
    record = json.loads(path.read_text())
    assert record["values"] == {"copy": 2.5e10}
    assert record["date"]
    assert "ROOFLAB_LOGBOOK" not in os.environ


def test_record_keeps_nothing_of_a_unit_that_logged_nothing_or_failed(book_folder, capsys):
    assert main(["record"]) == 1
    assert "s9_demo/u1_demo logged nothing" in capsys.readouterr().err
    break_unit(book_folder)
    assert main(["record", "u1"]) == 1
    assert list((book_folder / "records").iterdir()) == []


def test_device_as_json_is_json_even_with_a_read_only_home(tmp_path):
    (tmp_path / "file").write_text("")
    done = rooflab("device", "--json", ROOFLAB_HOME=str(tmp_path / "file" / "home"), ROOFLAB_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kind"] == "cpu"
    assert found["ceilings"]["bytes_per_s"] > 0
    assert done.stderr.count("Rooflab cannot write to") == 1
    assert "measuring " in done.stderr


def test_device_shows_ceilings_and_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(devicecard, "describe", lambda *, fresh: DESCRIBED)
    assert main(["device"]) == 0
    out = capsys.readouterr().out
    assert "device  A fake chip" in out
    assert "memory bandwidth |     20 GB/s" in out
    assert 'pip install "rooflab[classroom]"' in out


def test_missing_parts_are_named_with_their_extra(monkeypatch):
    monkeypatch.setattr(devicecard, "find_spec", lambda name: None)
    told = devicecard.missing()
    assert any(line.endswith('pip install "rooflab[torch]"') for line in told)
    assert any(line.endswith('pip install "rooflab[classroom]"') for line in told)
    monkeypatch.setattr(devicecard, "find_spec", lambda name: object())
    assert devicecard.missing() == []


def test_an_unknown_device_setting_is_one_sentence():
    done = rooflab("device", ROOFLAB_DEVICE="toaster")
    assert done.returncode == 1
    assert done.stderr.startswith("rooflab: ROOFLAB_DEVICE is 'toaster'")
    assert "Traceback" not in done.stderr


def test_the_tour_runs_grades_and_reports(book_folder, described, graded, capsys):
    assert main(["tour", "--no-open", "--fresh"]) == 0
    told = capsys.readouterr()
    report = book_folder / ".rooflab" / "tour" / "report.html"
    assert told.out.rstrip().endswith(f"The report: {report}")
    rows = [[part.strip() for part in re.split(r"  +", line)] for line in told.out.splitlines() if line]
    assert rows[0] == ["notebook", "result", "time"]
    assert [row[0] for row in rows[1:5]] == ["u1_demo", "lab1_demo", "lab1_demo, untouched", "lab1_demo, solved"]
    assert re.fullmatch(r"all \d+ cells ran", rows[1][1])
    assert rows[3][1:] == ["0 of 5 points graded by nbgrader"]
    assert rows[4][1:] == [
        "5 of 5 points graded by nbgrader; 4 more for the written answer are given by hand",
        "0:09",
    ]
    text = report.read_text()
    for said in ("A fake chip", "all went well", "What does a demo cost?", "untouched 0 / 5, solved 5 / 5"):
        assert said in text
    assert described == [True]


def test_a_tour_on_which_everything_fails_still_reports(book_folder, monkeypatch, capsys):
    break_unit(book_folder)

    def fail(*_, **__):
        raise RuntimeError("it is gone")

    monkeypatch.setattr(tour, "find_device_apart", fail)
    monkeypatch.setattr(tour, "grade_lab", fail)
    assert main(["tour", "--no-open"]) == 1
    told = capsys.readouterr()
    assert re.search(r"^u1_demo +FAILED: \d+ of \d+ cells ran", told.out, re.MULTILINE)
    text = (book_folder / ".rooflab" / "tour" / "report.html").read_text()
    for sentence in ("the device: it is gone", "grading s9_demo/lab1_demo: it is gone", "ZeroDivisionError"):
        assert sentence in told.err
        assert sentence in text


def test_a_tour_that_is_stopped_reports_what_it_saw(book_folder, described, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt("u1_demo: stopped in code cell 1 of 2")

    monkeypatch.setattr(tour, "execute", stop)
    folder = book_folder / ".rooflab" / "tour"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("an earlier tour's")
    assert main(["tour"]) == 130
    told = capsys.readouterr()
    assert "u1_demo: stopped in code cell 1 of 2" in told.err
    assert "A fake chip" in (folder / "report-interrupted.html").read_text()
    assert (folder / "report.html").read_text() == "an earlier tour's"
    assert re.fullmatch(rf"\n0:0\d in all\. The report: {folder / 'report-interrupted.html'}\n", told.out)


@pytest.mark.parametrize(
    "command", [["tour", "--no-open"], ["run", "u1"], ["record", "u1"]], ids=lambda words: words[0]
)
@pytest.mark.parametrize("full", ["--output", "TMPDIR"])
def test_a_nearly_full_disk_is_told_before_anything_runs(book_folder, monkeypatch, capsys, command, full):
    """The disk is not filled: the free space is told."""
    output = book_folder / ".rooflab" / command[0]

    def usage(path):
        wanted = output if full == "--output" else Path(tempfile.gettempdir())
        return types.SimpleNamespace(free=3e6 if path == wanted else 1e12)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert main(command) == 1
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert re.match(r"rooflab: The disk of .* is nearly full: about \d+ MB are needed, 3 MB are free\. ", line)
    assert full in line
    assert not list(output.rglob("*.ipynb"))


@pytest.mark.parametrize("command", [["run", "u1"], ["record"], ["tour"]], ids=lambda words: words[0])
def test_without_nbclient_one_sentence_says_so(book_folder, monkeypatch, capsys, command):
    monkeypatch.setitem(sys.modules, "nbclient", None)
    assert main(command) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == 'rooflab: This needs the package nbclient: pip install "rooflab[lab]"\n'
    assert not (book_folder / ".rooflab").exists()


def test_help_says_which_edition_of_a_lab_runs(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "the one with its solutions (default, because it runs to its end)" in told
    assert "a path means that very notebook" in told


def test_a_report_that_cannot_be_written_leaves_the_summary(book_folder, described, graded, monkeypatch, capsys):
    (book_folder / "out" / "report.html").mkdir(parents=True)  # a folder stands where the file has to go
    assert main(["tour", "--output", "out"]) == 1
    told = capsys.readouterr()
    assert "u1_demo" in told.out
    assert told.out.rstrip().endswith("There is no report.")
    assert f"the report: Cannot write {book_folder / 'out' / 'report.html'}" in told.err


def test_a_tour_outside_a_clone_says_so(tmp_path, monkeypatch, capsys):
    from rooflab import book

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(book, "__file__", str(tmp_path / "site-packages" / "rooflab" / "book.py"))
    assert main(["tour"]) == 2
    assert "run it inside a clone of the Rooflab repository" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_device_is_described_by_a_process_of_its_own(monkeypatch, capfd):
    code = "import sys; print('Rooflab cannot write', file=sys.stderr); print('{\"device\": 1}')"
    monkeypatch.setattr(tour, "_describe_command", lambda fresh: [sys.executable, "-c", code])
    assert tour.find_device_apart(progress=False) == {"device": 1}
    assert capfd.readouterr().err == "Rooflab cannot write\n"
    monkeypatch.setattr(
        tour, "_describe_command", lambda fresh: [sys.executable, "-c", "raise SystemExit('no device')"]
    )
    with pytest.raises(RuntimeError, match="no device"):
        tour.find_device_apart(progress=False)


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"DISPLAY": ":0", "CI": "true"}, False),
        ("linux", {"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4"}, False),
        ("darwin", {}, True),
    ],
)
def test_a_browser_is_opened_only_where_someone_sits(monkeypatch, platform, environment, expected):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert tour.can_open_browser() is expected


def test_the_notebook_itself_is_never_overwritten(book_folder, notebook, capsys):
    other = notebook("mine", "print(1)")
    before = other.read_bytes()
    assert main(["run", str(other), "--output", str(other.parent)]) == 1
    assert main(["run", "u1", "--output", "chapters"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert all(line.endswith("is the notebook itself, which is not overwritten: give another folder with --output.")
               for line in told)  # fmt: skip
    assert other.read_bytes() == before


def test_a_unit_named_twice_runs_once(book_folder, capsys):
    assert main(["run", "u1", "s9/u1", "chapters/s9_demo/u1_demo.ipynb"]) == 0
    assert capsys.readouterr().out.count("u1_demo ") == 1


def test_two_notebooks_of_one_name_are_refused_before_anything_runs(book_folder, notebook, capsys):
    paths = []
    for folder in "ab":
        (book_folder / folder).mkdir()
        paths.append(shutil.move(notebook("same", "open('ran', 'w').close()"), book_folder / folder / "same.ipynb"))
    assert main(["run", *map(str, paths), "--output", "out"]) == 1
    told = capsys.readouterr().err.strip()
    assert told == (
        f"rooflab: {paths[0]} and {paths[1]} would both be written as same.ipynb into one folder: run them one after "
        "the other, each with an --output of its own."
    )
    assert not (book_folder / "a" / "ran").exists()


def test_where_notebooks_lie_is_told_without_detours(book_folder, capsys):
    assert main(["run", "u1", "--output", "chapters/../out"]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"Executed notebooks: {book_folder / 'out'}")


def test_a_path_that_leads_nowhere_is_said_to_be_a_path(book_folder, capsys):
    (book_folder / "loop.ipynb").symlink_to("loop.ipynb")
    for name in ("loop.ipynb", "nowhere/x.ipynb"):
        assert main(["run", name]) == 2
        assert f"There is no notebook at the path {name}. There is no unit" in capsys.readouterr().err


def test_an_empty_output_folder_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", "u1", "--output", ""])
    assert caught.value.code == 2
    assert "expected the name of a folder, found nothing" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["device", "tour"])
def test_a_working_folder_that_is_gone_is_one_sentence(tmp_path, command):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"import os, sys; os.rmdir({str(folder)!r}); from rooflab.cli import main; sys.exit(main([{command!r}]))"
    env = {**os.environ, "PYTHONPATH": str(SHARED)}
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "rooflab: The folder in which you are has been removed: change to another one (cd).\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_finds_no_room_is_one_sentence(book_folder):
    command = [sys.executable, "-m", "rooflab", "run", "u1"]
    env = {**os.environ, "PYTHONPATH": str(SHARED)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "rooflab: The disk is full: free some space and try again."
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_are_no_failure(book_folder, closed):
    env = {**os.environ, "PYTHONPATH": str(SHARED)}
    command = f'exec "{sys.executable}" -m rooflab run u1 {closed}'
    assert subprocess.run(["sh", "-c", command], env=env, capture_output=True).returncode == 0
    assert (book_folder / ".rooflab" / "run" / "s9_demo" / "u1_demo.ipynb").is_file()
