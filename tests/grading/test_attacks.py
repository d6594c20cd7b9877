"""Hostile and broken submissions gain nothing, harm nothing, and get a sentence; the others are graded as ever.

All of attacks/ is graded in one batch with honest students. See arena.py for the form of a submission.
"""

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

HERE = Path(__file__).resolve().parent
FILES = sorted((HERE / "attacks").glob("*.py"))
HONEST = ("honest-1", "honest-2", "zz-honest-3")  # the first, among the others, and the last
LIMITS = "[limits]\ncall_s = 2\ntotal_s = 8\n"
TOTAL_S, GRACE_S = 8, 10  # of a submission, and for the checks' own work
KINDS = {"forge": 20, "read": 8, "time": 7, "resources": 15, "file": 15}
MARK = "arena-mark-"

pytestmark = [pytest.mark.xdist_group("attacks"), pytest.mark.timeout(900)]


def contents(*places):
    """The bytes, kinds and links of all files below some folders, as hashes."""
    found = {}
    for path in (path for place in places for path in [place, *place.rglob("*")]):
        status = path.lstat()
        told = [status.st_mode, os.readlink(path) if path.is_symlink() else ""]
        told.append(hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else "")
        found[str(path)] = told
    return found


def kept(arena):
    """What grading may not change: all of the course but the results, and what lies beside it."""
    return contents(
        arena.outside,
        arena.home,
        *(arena.root / name for name in ("source", "release", "submitted", "nbgrader_config.py")),
    )


@pytest.fixture(scope="module")
def batch(new_arena):
    """Grade all attacks with some honest students; what was there before, and what is there afterwards."""
    import arena as making

    arena = new_arena("attacks")
    submissions = {path.stem: arena.load(path, solved=False) for path in FILES}
    right = arena.load(HERE / "honest" / "style_plain.py", solved=True)
    for name in HONEST:
        arena.hand_in(right, name)
    for submission in submissions.values():
        arena.hand_in(submission)
    (arena.root / "grading.toml").write_text(LIMITS)
    (arena.outside / "canary.txt").write_text("here")
    with sqlite3.connect(arena.root / "gradebook.db") as database:
        database.execute("insert into student (id, first_name) values ('bystander', 'By')")
    process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    before = kept(arena)
    try:
        code, told = arena.run("rooflab", "grade", making.ASSIGNMENT, "--jobs", "2")
        alive = process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    outcomes = arena.root / ".rooflab" / "grading" / making.ASSIGNMENT / "outcomes"
    told_outcomes = {path.parent.name: json.loads(path.read_text())["outcome"] for path in outcomes.glob("*/*.json")}
    return SimpleNamespace(
        arena=arena, submissions=submissions, code=code, told=told, alive=alive, before=before, grades=arena.grades(),
        outcomes=told_outcomes, assignment=making.ASSIGNMENT, points=making.POINTS, lab=making.LAB,
        secret=making.SECRET,
    )  # fmt: skip


def test_the_corpus_has_every_kind():
    kinds = [path.stem.split("_")[0] for path in FILES]
    assert len(FILES) >= 65
    assert set(kinds) == set(KINDS)
    assert not {kind: kinds.count(kind) for kind, least in KINDS.items() if kinds.count(kind) < least}


def test_the_grader_comes_to_its_end(batch):
    assert batch.code == 0, batch.told[-4000:]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", batch.told), "what a terminal obeys"
    assert set(batch.grades) == {*batch.submissions, *HONEST}


@pytest.mark.parametrize("name", HONEST)
def test_every_other_student_has_full_marks(batch, name):
    points, comments = batch.grades[name]
    assert {check: told[0] for check, told in points.items() if check in batch.points} == batch.points
    assert not comments


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_an_attack_gains_nothing_and_is_told_what_happened(batch, name):
    submission = batch.submissions[name]
    points, comments = batch.grades[name]
    told = "\n".join(comments.values())
    assert submission.told
    assert submission.told.count(".") >= 1
    scores = {check: points[check][0] for check in batch.points}
    assert sum(score or 0 for score in scores.values()) <= submission.worth, scores
    if submission.solved:  # one exercise never costs the others
        assert sum(score or 0 for score in scores.values()) == submission.worth, (scores, told)
    assert all(points[check][1] for check, score in scores.items() if score is None), "a person has to look"
    assert submission.tells or submission.worth == sum(batch.points.values())
    assert re.search(submission.tells, told), told


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_an_attack_takes_no_longer_than_its_limits(batch, name):
    if name in batch.outcomes:  # those that cannot be read are not examined
        assert batch.outcomes[name]["seconds"] <= TOTAL_S + GRACE_S + 2
        assert not batch.outcomes[name]["lost"], batch.outcomes[name]["failure"]


def test_nothing_else_was_changed(batch):
    after = kept(batch.arena)
    assert batch.alive
    assert {path for path in {*batch.before, *after} if batch.before.get(path) != after.get(path)} == set()
    with sqlite3.connect(batch.arena.root / "gradebook.db") as database:
        students = {name for (name,) in database.execute("select id from student")}
        assert database.execute("select first_name from student where id = 'bystander'").fetchall() == [("By",)]
    assert students == {*batch.submissions, *HONEST, "bystander"}


def test_no_file_is_left(batch):
    folders = [batch.arena.root, batch.arena.outside, batch.arena.home, *map(Path, ("/tmp", "/var/tmp", "/dev/shm"))]
    found = [path for folder in folders if folder.is_dir() for path in folder.glob(f"{MARK}*")]
    found += [
        path for name in ("source", "release", "autograded") for path in (batch.arena.root / name).rglob(f"*{MARK}*")
    ]
    assert not found
    assert not list((batch.arena.folder / "tmp").iterdir())


def test_no_process_is_left(batch):
    place = str(batch.arena.folder)
    left = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline()), " ".join(process.environ().values())
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(place in text or MARK in text for text in words):
            left.append(words[0])
    assert not left


def test_results_hold_no_script_and_no_hidden_check(batch):
    shown = {"text/plain", "image/png", "image/jpeg"}
    for name in batch.grades:
        graded = batch.arena.root / "autograded" / name / batch.assignment / f"{batch.lab}.ipynb"
        for cell in json.loads(graded.read_text())["cells"]:
            source = "".join(cell["source"])
            assert cell["cell_type"] == "code" or not re.search(r"<\s*(script|img|svg|a)\b", source), (name, source)
            assert all(set(output.get("data", {})) <= shown for output in cell.get("outputs", ())), name
        page = (batch.arena.root / "feedback" / name / batch.assignment / f"{batch.lab}.html").read_text()
        assert batch.secret not in page, name
        assert not re.search(rf"<[^<>]*{MARK}|<script>\s*{MARK}", page), name
        assert not re.search(r"\\href\b|href=\"(javascript|data|file):", page.partition("<body")[2]), name


def test_no_text_shows_or_opens_what_lies_elsewhere(batch):
    from nbconvert.filters import markdown2html

    for name in batch.grades:
        graded = batch.arena.root / "autograded" / name / batch.assignment / f"{batch.lab}.ipynb"
        for cell in json.loads(graded.read_text())["cells"]:
            source = "".join(cell["source"])
            asks = MARK in source or "example.org" in source
            if cell["cell_type"] == "markdown" and asks and "attachment:" not in source:
                shown = markdown2html(source)
                assert not re.search(rf"<img|href=\"(?!https?:)[^\"]*{MARK}", shown), (name, source)
                assert not re.search(r"\\(href|mmlToken)\b", shown), (name, source)


def test_a_second_run_finds_everything_done(batch):
    code, told = batch.arena.run("rooflab", "grade", batch.assignment, "--jobs", "2")
    assert code == 0
    assert f"{len(batch.grades)} students, {len(batch.grades)} of them graded before" in told
    assert batch.arena.grades() == batch.grades
