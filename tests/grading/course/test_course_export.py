"""Exports are read here as Canvas and Moodle read them, by the rules of their importers."""

import csv

import pytest
from coursework import give_grades

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,lab1_demo (4711),Essay (4712),Final Score
    Points Possible,,,,,14,10,(read only)
"Lovelace, Ada",101,S-1,ada,Perf 101,,9.00,50
"Babbage, Charles",102,S-2,CB@uni.example,Perf 101,3.00,,30
"Student, Test",103,,0f3a,Perf 101,,,
"""
MOODLE = """\
First name,Last name,ID number,Institution,Department,Email address,Assignment: lab1_demo (Real),Last downloaded
Ada,Lovelace,ada,,,Ada.L@uni.example,-,1796083200
Charles,Babbage,,,,CB@Uni.example,-,1796083200
"""


@pytest.fixture
def graded(course):
    from rooflab.grading.course_gradebook import _open

    give_grades(course, {"ada": 1.0, "charles": 0.5}, late=1.25)
    with _open(course) as gradebook:
        for who, first, last, mail in (
            ("ada", "Ada", "Lovelace", "Ada.L@uni.example"),
            ("charles", "Charles", "Babbage", "cb@uni.example"),
            ("zoë", "Zoë", "O'Neil, Jr.", ""),
        ):
            gradebook.update_or_create_student(who, first_name=first, last_name=last, email=mail)
    return course


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, strict=True))


def as_canvas(rows):
    """What Canvas makes of a file: (student columns of each row, {assignment: points}, {assignment: grade} of each)."""
    head = rows[0]
    assert "Student" in head[0] and "ID" in head[1]  # noqa: PT018  (one condition of the importer)
    count = 3
    if "SIS Login ID" in head[2]:
        count += 1
    elif "SIS User ID" in head[2] and "SIS Login ID" in head[3]:
        count += 2
        count += "Integration ID" in head[4]
        count += "Root Account" in head[count - 1]
    assert "Section" in head[count - 1], "Canvas calls this an invalid header row"
    assert all(len(row) == len(head) for row in rows)
    [points] = [row for row in rows[1:] if "Points Possible" in row[0]]
    students = [row for row in rows[1:] if "Points Possible" not in row[0]]
    for row in [points, *students]:
        for cell in row[count:]:
            assert cell == "" or float(cell) >= 0
    names = head[count:]
    return (
        [row[:count] for row in students],
        dict(zip(names, points[count:], strict=True)),
        [dict(zip(names, row[count:], strict=True)) for row in students],
    )


def test_canvas_gets_its_ids_back_and_the_penalty_is_taken_off(graded, rooflab, tmp_path):
    roster, to = tmp_path / "canvas.csv", tmp_path / "to.csv"
    roster.write_text(CANVAS, encoding="utf-8-sig")
    code, out, _ = rooflab("course", graded, "--export", "canvas", "--roster", roster, "--to", to)
    assert code == 0
    assert "Not in the roster, so not exported: zoë." in out
    people, points, grades = as_canvas(read(to))
    assert people == [
        ["Lovelace, Ada", "101", "S-1", "ada", "Perf 101"],
        ["Babbage, Charles", "102", "S-2", "CB@uni.example", "Perf 101"],
        ["Student, Test", "103", "", "0f3a", "Perf 101"],
    ]
    assert points == {"lab1_demo (4711)": "14"}  # Canvas finds its assignment by the id in parentheses
    assert grades == [{"lab1_demo (4711)": "12.75"}, {"lab1_demo (4711)": "5.75"}, {"lab1_demo (4711)": ""}]


def test_canvas_without_a_roster_gets_logins_and_a_new_assignment(graded, rooflab):
    assert rooflab("course", graded, "--export", "canvas")[0] == 0
    people, points, grades = as_canvas(read(graded / "grades-canvas.csv"))
    assert [(row[0], row[1], row[3]) for row in people] == [
        ("Babbage, Charles", "", "charles"), ("Lovelace, Ada", "", "ada"), ("O'Neil, Jr., Zoë", "", "zoë"),
    ]  # fmt: skip
    assert points == {"lab1_demo": "14"}
    assert [row["lab1_demo"] for row in grades] == ["5.75", "12.75", ""]


def test_a_grade_that_only_canvas_has_is_not_taken_away(course, rooflab, tmp_path):
    give_grades(course, {"ada": 1.0})
    roster, to = tmp_path / "canvas.csv", tmp_path / "to.csv"
    roster.write_text(CANVAS, encoding="utf-8")
    assert rooflab("course", course, "--export", "canvas", "--roster", roster, "--to", to)[0] == 0
    assert [row["lab1_demo (4711)"] for row in as_canvas(read(to))[2]] == ["14", "3.00", ""]


def test_moodle_gets_only_its_own_users_with_their_addresses_as_it_writes_them(graded, rooflab, tmp_path):
    roster, to = tmp_path / "moodle.csv", tmp_path / "to.csv"
    roster.write_text(MOODLE, encoding="utf-8-sig")
    assert rooflab("course", graded, "--export", "moodle", "--roster", roster, "--to", to)[0] == 0
    rows = read(to)
    assert rows == [
        ["First name", "Last name", "ID number", "Email address", "Assignment: lab1_demo (Real)"],
        ["Ada", "Lovelace", "ada", "Ada.L@uni.example", "12.75"],
        ["Charles", "Babbage", "", "CB@Uni.example", "5.75"],
    ]


def test_moodle_without_a_roster_has_no_empty_grade(graded, rooflab):
    """In a new grade item Moodle takes an empty cell for a grade; "-" is none."""
    assert rooflab("course", graded, "--export", "moodle")[0] == 0
    head, *rows = read(graded / "grades-moodle.csv")
    assert head == ["First name", "Last name", "ID number", "Email address", "lab1_demo"]
    assert [row[2:] for row in rows] == [
        ["charles", "cb@uni.example", "5.75"], ["ada", "Ada.L@uni.example", "12.75"], ["zoë", "", "-"],
    ]  # fmt: skip


def test_the_plain_table_says_points_penalty_and_most(graded, rooflab):
    code, out, _ = rooflab("course", graded, "--export", "csv", "--assignment", "lab1_demo")
    assert code == 0
    assert "1 assignment of 3 students" in out
    assert read(graded / "grades.csv") == [
        ["student_id", "last_name", "first_name", "email", "lab1_demo", "lab1_demo_penalty", "lab1_demo_max"],
        ["charles", "Babbage", "Charles", "cb@uni.example", "5.75", "1.25", "14"],
        ["ada", "Lovelace", "Ada", "Ada.L@uni.example", "12.75", "1.25", "14"],
        ["zoë", "O'Neil, Jr.", "Zoë", "", "", "", "14"],
    ]


@pytest.mark.parametrize("form", ["csv", "canvas", "moodle"])
def test_no_name_is_a_formula(graded, rooflab, form):
    from rooflab.grading.course_gradebook import _open

    with _open(graded) as gradebook:
        for who, first in (("=1+1", "@SUM(A1)"), ("+eve", "-2+3")):
            gradebook.update_or_create_student(who, first_name=first, last_name="=HYPERLINK(A1)", email="")
    code, told, _ = rooflab("course", graded, "--export", form)
    assert code == 0, told
    cells = [cell for row in read(graded / ("grades.csv" if form == "csv" else f"grades-{form}.csv")) for cell in row]
    assert any(cell.startswith("'=") for cell in cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@")) and cell != "-"]


def test_points_are_those_of_nbgraders_own_export(graded, rooflab):
    import subprocess
    import sys

    assert rooflab("course", graded, "--export", "csv")[0] == 0
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "nbgrader", "export", "--to", "theirs.csv"], cwd=graded,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with (graded / "theirs.csv").open() as file:
        theirs = {line.split(",")[3]: line.rstrip().split(",") for line in file}
    ours = {row[0]: row for row in read(graded / "grades.csv")[1:]}
    for who in ("ada", "charles"):
        assert float(ours[who][4]) == float(theirs[who][-2])
        assert float(ours[who][6]) == float(theirs[who][-1])


def test_a_number_of_canvas_is_not_taken_for_an_id_of_ours(course, rooflab, tmp_path):
    give_grades(course, {"101": 1.0})
    roster, to = tmp_path / "canvas.csv", tmp_path / "to.csv"
    roster.write_text(CANVAS, encoding="utf-8")
    assert rooflab("course", course, "--export", "canvas", "--roster", roster, "--to", to)[0] == 0
    assert [row["lab1_demo (4711)"] for row in as_canvas(read(to))[2]] == ["", "3.00", ""]


def test_two_rows_of_one_student_are_refused(graded, rooflab, tmp_path):
    roster = tmp_path / "canvas.csv"
    roster.write_text(CANVAS.replace("0f3a", "ADA"), encoding="utf-8")
    code, _, err = rooflab("course", graded, "--export", "canvas", "--roster", roster)
    assert (code, "ada stands for several rows" in err) == (1, True)


def test_canvas_may_part_names_into_two_columns(graded, rooflab, tmp_path):
    roster, to = tmp_path / "canvas.csv", tmp_path / "to.csv"
    roster.write_text(
        "LastName,FirstName,ID,SIS User ID,SIS Login ID,Section,lab1_demo (4711)\nPoints Possible,,,,,,14\n"
        "Lovelace,Ada,101,S-1,ada,Perf 101,\n"
    )
    assert rooflab("course", graded, "--export", "canvas", "--roster", roster, "--to", to)[0] == 0
    assert read(to)[0] == ["LastName", "FirstName", "ID", "SIS User ID", "SIS Login ID", "Section", "lab1_demo (4711)"]
    assert read(to)[2] == ["Lovelace", "Ada", "101", "S-1", "ada", "Perf 101", "12.75"]


def test_a_grade_that_only_moodle_has_is_not_taken_away(course, rooflab, tmp_path):
    give_grades(course, {"ada": 1.0})
    roster, to = tmp_path / "moodle.csv", tmp_path / "to.csv"
    roster.write_text(MOODLE.replace("CB@Uni.example,-", "CB@Uni.example,4.50"), encoding="utf-8")
    assert rooflab("course", course, "--export", "moodle", "--roster", roster, "--to", to)[0] == 0
    assert [row[-1] for row in read(to)[1:]] == ["14", "4.50"]


def test_waiting_answers_are_told(graded, rooflab):
    from rooflab.grading.course_gradebook import _open

    with _open(graded) as gradebook:
        for grade in gradebook.find_submission("lab1_demo", "ada").notebooks[0].grades:
            grade.needs_manual_grade = True
        gradebook.db.commit()
    assert (
        "lab1_demo: 1 submission with answers that wait for a person" in rooflab("course", graded, "--export", "csv")[1]
    )


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("canvas", "Name,Grade\nAda,1\n", "has no column with an id of students"),
        ("canvas", MOODLE, "is no gradebook of Canvas"),
        ("csv", 'ID,x\n"open,1\n', "is no CSV file"),
        ("csv", b"ID,\xff\n1,2\n", "is no CSV file"),
    ],
)
def test_a_roster_that_is_none_is_refused(graded, rooflab, tmp_path, form, text, told):
    roster, to = tmp_path / "roster.csv", tmp_path / "to.csv"
    roster.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, _, err = rooflab("course", graded, "--export", form, "--roster", roster, "--to", to)
    assert (code, told in err) == (1, True), err
    assert not to.exists()


def test_what_is_not_there_cannot_be_exported(graded, rooflab, tmp_path):
    code, _, err = rooflab("course", graded, "--export", "csv", "--assignment", "lab9")
    assert (code, "There is no assignment lab9" in err) == (1, True)
    code, _, err = rooflab("course", tmp_path, "--export", "csv")
    assert (code, "has no gradebook" in err) == (1, True)
