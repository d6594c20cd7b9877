"""nbgrader's own commands work on what the generator makes, and give the points that the fast scorer gives."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

import courses
import pytest

import variants

ASSIGNMENTS = [("demo", "s9_demo")]
ASSIGNMENTS += [("book", name) for name in sorted({script.parts[1] for script in courses.labs_of(courses.ROOT)})]


@pytest.fixture(scope="module", params=ASSIGNMENTS, ids=lambda pair: pair[1])
def graded(request, tmp_path_factory, roots):
    """Generate, hand in (blank, solved, and a wrong one), autograde: the course, its labs and who handed in what."""
    book, assignment = request.param
    course = courses.Course(roots[book], tmp_path_factory.mktemp(assignment))
    course.build()
    built = {path.name: path.read_bytes() for path in (course.root / "labs" / assignment).iterdir()}
    log = course.nbgrader("generate_assignment", assignment, "--force")
    handed_in = {}
    for script in courses.labs_of(course.root):
        if script.parts[1] == assignment:
            lab = variants.load(script, course.root)
            handed_in[script] = _hand_in(course, script, lab)
    course.nbgrader("autograde", assignment)
    return course, assignment, built, log, handed_in


def _hand_in(course, script, lab):
    every = {v.name: v for v in variants.variants_of(lab, course.root / "tests" / "labs" / lab.name)}
    wrong = next(variant for variant in every.values() if variant.target)
    students = {"blank": {}, "solved": lab.exercises, "wrong": lab.exercises | wrong.answers}
    names = {"blank": "blank", "solved": "solved", "wrong": wrong.name}
    if noisy := every.get("right_noisy"):
        students["noisy"], names["noisy"] = lab.exercises | noisy.answers, noisy.name
    written = {
        mark["grade_id"]: "An answer."
        for cell in lab.instructor
        if (mark := cell["metadata"].get("nbgrader", {})).get("grade") and mark.get("solution")
    }
    for student, answers in students.items():
        course.submit(student, script, answers | (written if student != "blank" else {}))
    return names, set(written)


def test_generate_assignment_writes_the_bytes_of_the_generator(graded):
    course, assignment, built, log, _ = graded
    released = {path.name: path.read_bytes() for path in (course.root / "labs" / assignment).iterdir()}
    assert released == built  # and so nothing but the notebooks: no script with solutions
    assert all(name.endswith(".ipynb") for name in released)
    assert "ERROR" not in log


def test_autograde_gives_the_points_of_the_fast_scorer(graded, scores_of):
    course, assignment, _, _, handed_in = graded
    grades = course.grades(assignment)
    book = next(book for book, name in ASSIGNMENTS if name == assignment)
    for script, (names, written) in handed_in.items():
        fast = scores_of(book, script, *names.values())
        for student, name in names.items():
            seen = grades[student][script.stem]
            points = {grade: told[:2] for grade, told in seen.items() if grade not in written}
            # Hidden checks draw fresh values: a wrong answer may pass one cell of its exercise by luck, never all.
            assert variants.lost(points) == variants.lost(fast[name]), (script.stem, student)
            if student != "wrong":
                assert points == fast[name], (script.stem, student)
            # An untouched answer in words is 0; any other waits for a person.
            assert {seen[grade][0] for grade in written} == {0 if student == "blank" else None}
            assert {seen[grade][2] for grade in written} == {student != "blank"}


def test_a_right_answer_may_write_to_stderr(graded):
    course, assignment, _, _, handed_in = graded
    grades = course.grades(assignment)
    for script, (names, written) in handed_in.items():
        assert "noisy" in names, f"{script.stem} keeps no right_noisy.py"
        seen = grades["noisy"][script.stem]
        assert {grade: told[0] for grade, told in seen.items() if grade not in written} == {
            grade: told[1] for grade, told in seen.items() if grade not in written
        }


def test_feedback_shows_expected_found_and_hint(graded):
    course, assignment, _, _, handed_in = graded
    course.nbgrader("generate_feedback", assignment)
    for script in handed_in:
        page = (course.root / "feedback" / "wrong" / assignment / f"{script.stem}.html").read_text(encoding="utf-8")
        text = re.sub(r"<[^>]+>", "", page)
        assert "Error" in text
        assert re.search(r"expected:.*\n.*found:", text)


def test_the_solution_edition_can_be_generated(graded):
    course, assignment, _, _, _ = graded
    course.nbgrader("generate_solution", assignment)
    assert sorted((course.root / "solution" / assignment).glob("*.ipynb"))


def test_formgrader_lists_the_assignment(graded):
    course, assignment, _, _, handed_in = graded
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command += ["--ServerApp.port=0", "--IdentityProvider.token=secret", "--ServerApp.terminals_enabled=False"]
    log = (course.root / "server.log").open("w")
    server = subprocess.Popen(
        command, cwd=course.root, env=courses.environment(course.home), stdout=log, stderr=subprocess.STDOUT
    )
    try:
        url = _url_of(course, server)
        [listed] = [a for a in _get(f"{url}formgrader/api/assignments") if a["name"] == assignment]
        assert listed["status"] in ("draft", "released")
        assert listed["source_path"] == f"solutions/{assignment}"
        assert listed["release_path"] == f"labs/{assignment}"
        assert listed["num_submissions"] == len(next(iter(handed_in.values()))[0])
        assert {n["name"] for n in _get(f"{url}formgrader/api/notebooks/{assignment}")} == {s.stem for s in handed_in}
    finally:
        server.terminate()
        server.wait(timeout=60)
        log.close()


def _url_of(course, server):
    for _ in range(600):
        assert server.poll() is None, (course.root / "server.log").read_text()
        for path in (course.home / "runtime").glob("jpserver-*.json"):
            url = json.loads(path.read_text())["url"]
            try:
                _get(f"{url}api")
            except (urllib.error.URLError, ConnectionError):
                continue
            return url
        time.sleep(0.1)
    raise AssertionError("the server did not start within a minute: " + (course.root / "server.log").read_text())


def _get(url):
    request = urllib.request.Request(url, headers={"Authorization": "token secret"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_nbgrader_finds_its_tools_in_an_environment_that_nobody_activated(tmp_path):
    code = (
        "import shutil, sys\n"
        "from traitlets.config.loader import PyFileConfigLoader\n"
        "assert shutil.which('alembic') is None\n"
        "PyFileConfigLoader('nbgrader_config.py', path=sys.argv[1]).load_config()\n"
        "assert shutil.which('alembic') is not None\n"
    )
    env = courses.environment(tmp_path) | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, courses.ROOT], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_kernels_find_the_package_of_a_checkout_that_is_not_installed(tmp_path):
    code = (
        "import subprocess, sys\n"
        "from traitlets.config.loader import PyFileConfigLoader\n"
        "PyFileConfigLoader('nbgrader_config.py', path=sys.argv[1]).load_config()\n"
        "subprocess.run([sys.executable, '-c', 'import rooflab'], check=True)\n"
    )
    env = {name: value for name, value in courses.environment(tmp_path).items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code, courses.ROOT], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
