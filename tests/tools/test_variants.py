import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cell_run
import variants
from percent import SourceError

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests" / "fixtures" / "course"
SCRIPT = Path("solutions/s9_demo/lab1_demo.py")


@pytest.fixture
def course(tmp_path):
    shutil.copytree(FIXTURE, tmp_path, dirs_exist_ok=True)
    for name in ("pyproject.toml", "nbgrader_config.py"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def points_of(source, *, before=""):
    """Score a lab of one graded cell, worth 4 points, in a fork."""

    def cell(position, text, **marks):
        metadata = {"nbgrader": marks} if marks else {}
        return {"cell_type": "code", "id": f"cell-{position}", "metadata": metadata, "source": text}

    marks = {"grade": True, "solution": False, "locked": True, "grade_id": "f-check-1", "points": 4}
    lab = variants.Lab("lab1_x", [cell(0, before), cell(1, source, **marks)], [])
    return variants.score_all(lab, [variants.Variant("solved", "", {})])["solved"]["f-check-1"][0]


@pytest.mark.parametrize(
    ("source", "points"),
    [
        ("assert 1 + 1 == 2", 4),
        ("assert 1 + 1 == 3", 0),
        ("1.5", 1.5),
        ("'words'", 4),
        ("None", 4),
        ("print('fine')", 4),
        ("import sys; print('not fine', file=sys.stderr)", 0),
        ("import warnings; warnings.warn('not fine')", 0),
        ("raise SystemExit", 0),
        ("raise KeyboardInterrupt", 0),
        ("import os; os._exit(0)", 0),
        ("%matplotlib inline\nassert True", 4),
        ("if True:\n    !ls", 4),
        ("x = 7\nassert (x\n    %4) == 3", 4),
        ("assert True\nthis is no python", 0),
        ("assert __name__ == '__main__'", 4),
        ("display(1)", 4),
    ],
)
def test_a_cell_is_scored_as_nbgrader_would(source, points):
    assert points_of(source) == points


def test_an_error_in_a_cell_above_does_not_stop_the_notebook():
    assert points_of("assert x == 1", before="x = 1\nraise ValueError") == 4


def test_after_a_session_stderr_counts_for_nothing(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    session = "import sys\nfrom rooflab import check\ncheck.session('s1/lab1')"
    assert points_of("print('fine', file=sys.stderr)", before=session) == 4
    assert points_of("print('not fine', file=sys.stderr)", before="import sys") == 0


def test_a_function_can_be_asked_for_its_source_and_pickled_by_name():
    asks = "import inspect, pickle as p\nassert 'return 7' in inspect.getsource(f)\nassert p.loads(p.dumps(f)) is f"
    assert points_of(asks, before="def f():\n    return 7") == 4


def test_what_one_answer_breaks_is_whole_for_the_next():
    assert points_of("import time; time.sleep = None") == 4
    assert points_of("import time; time.sleep(0)") == 4


def test_an_answer_that_does_not_end_scores_zero(monkeypatch):
    monkeypatch.setattr(cell_run, "CELL_LIMIT_S", 0.2)
    assert points_of("while True: pass") == 0
    monkeypatch.setattr(variants, "ANSWER_LIMIT_S", 1)
    stubborn = "while True:\n    try:\n        while True: pass\n    except TimeoutError: pass"
    assert points_of(stubborn) == 0


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("wrong_f_x.py", '# %% exercise="f"\n', "expected a docstring of one line"),
        ("wrong_f_x.py", '"""One.\n\nTwo.\n"""\n\n# %% exercise="f"\n', "expected a docstring of one line"),
        ("wrong_f_x.py", '"""Why."""\n', "expected one '# %% exercise=\"name\"' cell for each exercise answered"),
        ("wrong_f_x.py", '"""Why."""\n\n# %%\nx = 1\n', "['None'] are no exercises; expected some of ['f', 'g']"),
        ("wrong_f_x.py", '"""Why."""\n\n# %% exercise="h"\n', "['h'] are no exercises; expected some of ['f', 'g']"),
        ("wrong_f_x.py", '"""Why."""\n\n# %% exercise="g"\n', "gives the name wrong_<exercise>_<why>.py"),
        ("wrong_f.py", '"""Why."""\n\n# %% exercise="f"\n', "gives the name wrong_<exercise>_<why>.py"),
        ("wrong_f_x.py", '"""Why."""\n\n# %% exercise="f"\n# %% exercise="g"\n', "one exercise is wrong"),
        ("right_x.py", '"""How."""\n\n# %% exercise="f"\n# %% exercise="f"\n', "cell for each exercise answered"),
        ("wrong_f_x.py", '"""Why."""\n\n# %% exercise=f\n', "wrong_f_x.py:3: unknown marker '# %% exercise=f'"),
    ],
)
def test_a_kept_answer_that_cannot_be_read(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError) as caught:
        variants.read_variant(tmp_path / name, {"f": "", "g": ""})
    assert told in str(caught.value)


FULL = {"f-check-1": (1, 1), "f-hidden-1": (2, 2), "g-check-1": (1, 1)}
F_LOST = FULL | {"f-hidden-1": (0, 2)}
ALL_LOST = {name: (0, most) for name, (_, most) in FULL.items()}


@pytest.mark.parametrize(
    ("name", "target", "scores", "told"),
    [
        ("blank", None, ALL_LOST, None),
        ("blank", None, F_LOST, "gets points for f-check-1, g-check-1; the untouched lab has to score 0"),
        ("solved", None, FULL, None),
        ("right_x", None, FULL, None),
        ("right_x", None, F_LOST, "loses points in f; it has to get full marks"),
        ("wrong_f_x", "f", F_LOST, None),
        ("wrong_f_x", "f", FULL, "gets full marks for f; no check sees the mistake"),
        ("wrong_f_x", "f", ALL_LOST, "also loses points in g; only f is wrong"),
    ],
)
def test_complaints(name, target, scores, told):
    sentences = variants.complaints(variants.Variant(name, "Why.", {}, target), scores)
    assert [told in sentence for sentence in sentences] == [True] * bool(told)


def test_the_command_line_prints_points_and_complains(course):
    folder = course / "tests" / "labs" / "lab1_demo"
    (folder / "wrong_middle_not.py").write_text(
        '"""Is right."""\n\n# %% exercise="middle"\ndef middle(times_s):\n    return float(np.median(times_s))\n'
    )
    command = [sys.executable, str(ROOT / "tools" / "variants.py"), "--root", str(course), str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "lab1_demo: wrong_middle_not (Is right.) gets full marks for middle; no check sees the mistake.\n"
    )
    assert "lab1_demo      0 / 10  blank                                    middle, normalize\n" in done.stdout
    (folder / "wrong_middle_not.py").unlink()
    done = subprocess.run([*command, "--json", "--times", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lab1_demo"]["wrong_normalize_axis"]["normalize-check-1"] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chapters/s9_demo/u1_demo.py"], "chapters/s9_demo/u1_demo.py is no lab; expected solutions/<series>/lab"),
        (["solutions/s9_demo/lab2_none.py"], "lab2_none.py: it cannot be read (No such file or directory)."),
        (["--only", "nobody"], "No answer was scored: "),
        (["--root", "tests"], "No answer was scored: "),
    ],
)
def test_what_scores_nothing_is_no_success(course, monkeypatch, capsys, arguments, told):
    monkeypatch.chdir(course)
    root = [] if "--root" in arguments else ["--root", str(course)]
    assert variants.main([*root, *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_nothing_is_scored_no_times(capsys):
    with pytest.raises(SystemExit):
        variants.main(["--times", "0"])
    assert "--times" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"""X."""\n\n# %% exercise="f"\nx = (\n', "an answer that is no valid Python proves nothing ('(' was never"),
        ('"""X.\n\n# %% exercise="f"\nx = 1\n', "wrong_f_x.py:1: its head is no valid Python (unterminated"),
        ('\ufeff"""X."""\n\n# %% exercise="f"\nx = 1\n', "wrong_f_x.py:1: found a byte order mark"),
    ],
)
def test_an_answer_that_cannot_be_run_is_refused(tmp_path, text, told):
    path = tmp_path / "wrong_f_x.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceError) as caught:
        variants.read_variant(path, {"f": "x = 2"})
    assert told in str(caught.value)
