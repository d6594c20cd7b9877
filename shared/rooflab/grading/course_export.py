"""How do grades leave for Canvas, for Moodle, or as a plain table?

>>> lab = Assignment("lab1", points=25, marks=(Mark("ada", 20.0, penalty=2.5),))
>>> for row in canvas([lab], {"ada": Student("ada", "Ada", "Lovelace")}, None):
...     print(row)
['Student', 'ID', 'SIS User ID', 'SIS Login ID', 'Section', 'lab1']
['    Points Possible', '', '', '', '', '25']
['Lovelace, Ada', '', '', 'ada', '', '17.5']
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files import write_atomic
from .course_gradebook import Assignment, Mark, Student, read_assignments, read_students

__all__ = ["FORMATS", "Roster", "canvas", "export", "moodle", "plain", "read_roster"]

_POINTS_POSSIBLE = "Points Possible"
# In which order the columns of a roster are asked for the id of a student in nbgrader, which is a login.
_IDS = ("sis login id", "username", "sis user id", "id number", "email address", "email")
_BARE_ID = "id"  # Canvas' own number, which could be somebody else's id here; taken where there is nothing better
_MOODLE = ("First name", "Last name", "ID number", "Email address")


@dataclass(frozen=True)
class Roster:
    """The students as the learning platform exported them: `head` and `rows` are its file."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def students(self, known: Mapping[str, Student]) -> list[tuple[Sequence[str], str]]:
        """Each row with the id of its student in nbgrader, empty where nobody has it.

        Ids are compared exactly, then without regard to case; an e-mail address also by the gradebook's.
        """
        names: dict[str, str] = {}
        for student in known.values():
            names.setdefault(student.id.lower(), student.id)
            if student.email:
                names.setdefault(student.email.lower(), student.id)
        heads = [name.strip().lower() for name in self.head]
        columns = [heads.index(name) for name in _IDS if name in heads] or [heads.index(_BARE_ID)]
        found: list[tuple[Sequence[str], str]] = []
        for row in self.rows:
            ids = [row[column].strip() for column in columns if row[column].strip()]
            exact = [each for each in ids if each in known]
            near = [names[each.lower()] for each in ids if each.lower() in names]
            found.append((row, next(iter([*exact, *near]), "")))
        if twice := [who for who, times in Counter(who for _, who in found if who).items() if times > 1]:
            raise ValueError(f"{twice[0]} stands for several rows of the roster: correct its ids or e-mail addresses.")
        return found

    def column(self, assignment: str) -> int | None:
        """Where an assignment stands: "lab1", "lab1 (4711)" as in Canvas, "Assignment: lab1 (Real)" as in Moodle."""
        name = re.compile(rf"(?:[\w ]+: ?)?{re.escape(assignment)}(?: \([^()]*\))?", re.IGNORECASE)
        return next((place for place, head in enumerate(self.head) if name.fullmatch(head.strip())), None)


def read_roster(path: Path) -> Roster:
    """Read the file that Canvas or Moodle exported; commas, semicolons or tabs part its columns.

    Raises:
        ValueError: it is no such file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        head = text.split("\n", 1)[0]
        rows = list(csv.reader(io.StringIO(text), delimiter=max(",;\t", key=head.count), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no CSV file in UTF-8 ({error}): export it from the platform again.") from None
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if len(rows) < 2 or not {name.strip().lower() for name in rows[0]} & {*_IDS, _BARE_ID}:
        raise ValueError(
            f"{path} has no column with an id of students ({', '.join(_IDS)}): export the gradebook from the platform."
        )
    return Roster(rows[0], [[*row, *[""] * (len(rows[0]) - len(row))] for row in rows[1:]])


def canvas(
    assignments: Sequence[Assignment], students: Mapping[str, Student], roster: Roster | None
) -> list[list[str]]:
    """Rows for Canvas' *Import* in its gradebook.

    The form: columns Student, ID, then SIS User ID and SIS Login ID, then Section, then assignments; an assignment
    that exists is "title (id)", another title makes a new one; a row "Points Possible" stands before the students; a
    student is found by ID, else by SIS id, else by login, else by name. Source: Canvas' importer,
    https://github.com/instructure/canvas-lms/blob/master/lib/gradebook_importer.rb, and the instructor guide "How do I
    import grades in the Gradebook?" at https://community.canvaslms.com.

    Args:
        assignments: columns, in order.
        students: of the gradebook.
        roster: the file that Canvas exports, whose ids Canvas wants back; None writes logins only.
    """
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    titles = [each.name for each in assignments]
    people = [
        ([_name_for_sorting(each), "", "", each.id, ""], [""] * len(titles), each.id) for each in _sorted(students)
    ]
    if roster is not None:
        names = [name.strip() for name in roster.head]
        if names[:2] not in (["Student", "ID"], ["LastName", "FirstName"]) or "Section" not in names:
            raise ValueError(
                "The roster is no gradebook of Canvas: export it there (Grades, Export), and give that file."
            )
        width = names.index("Section") + 1
        head = names[:width]
        at = [roster.column(each.name) for each in assignments]
        titles = [title if column is None else names[column] for title, column in zip(titles, at, strict=True)]
        people = [
            ([*row[:width]], ["" if column is None else row[column] for column in at], who)
            for row, who in roster.students(students)
            if _POINTS_POSSIBLE not in row[0] and any(cell.strip() for cell in row[:width])
        ]
    rows = [[*head, *titles], [f"    {_POINTS_POSSIBLE}", *[""] * (len(head) - 1)]]
    rows[1] += [_number(each.points) for each in assignments]
    for own, before, who in people:  # a grade that is only in Canvas stays: an empty cell would take it away
        rows.append([*own, *[_score(each, who) or old for each, old in zip(assignments, before, strict=True)]])
    return rows


def moodle(
    assignments: Sequence[Assignment], students: Mapping[str, Student], roster: Roster | None
) -> list[list[str]]:
    """Rows for Moodle's *Import, CSV file* of grades.

    The form: one row of heads, one row for each student; while importing, "Email address" or "ID number" is mapped to
    the user, and each assignment to a grade item or a new one; "-" means no grade. A row whose user Moodle does not
    know makes it refuse the whole file, so with a roster only its students are written; addresses keep their case,
    because Moodle compares it. Source: https://docs.moodle.org/en/Grade_import, and Moodle's importer,
    https://github.com/moodle/moodle/blob/main/grade/import/csv/classes/load_data.php.

    Args:
        assignments: columns, in order.
        students: of the gradebook.
        roster: the file that Moodle exports (grades or participants); None writes ids as "ID number".
    """
    heads, people = [each.name for each in assignments], []
    for each in _sorted(students) if roster is None else []:
        people.append(([each.first_name, each.last_name, each.id, each.email], ["-"] * len(heads), each.id))
    if roster is not None:
        names = [name.strip().lower() for name in roster.head]
        same = {"last name": "surname", "email address": "email"}
        own = [next((names.index(n) for n in (w.lower(), same.get(w.lower())) if n in names), None) for w in _MOODLE]
        at = [roster.column(name) for name in heads]
        heads = [name if column is None else roster.head[column] for name, column in zip(heads, at, strict=True)]
        for row, who in roster.students(students):
            before = ["-" if column is None else row[column] or "-" for column in at]
            people.append((["" if column is None else row[column] for column in own], before, who))
    rows = [[*_MOODLE, *heads]]
    for own_cells, before, who in people:  # a grade that is only in Moodle stays
        rows.append([*own_cells, *[_score(each, who) or old for each, old in zip(assignments, before, strict=True)]])
    return rows


def plain(assignments: Sequence[Assignment], students: Mapping[str, Student], roster: Roster | None) -> list[list[str]]:
    """Rows of a table for whatever else: ids, names, e-mail; for each assignment points, penalty and most points.

    Args:
        assignments: columns, in order.
        students: of the gradebook.
        roster: whose students are written, in its order; None writes all.
    """
    order = [students[who] for _, who in roster.students(students) if who] if roster else _sorted(students)
    head = ["student_id", "last_name", "first_name", "email"]
    rows = [
        [*head, *[name for each in assignments for name in (each.name, f"{each.name}_penalty", f"{each.name}_max")]]
    ]
    for who in order:
        row = [who.id, who.last_name, who.first_name, who.email]
        for each in assignments:
            mark = _mark(each, who.id)
            row += [_score(each, who.id), _number(mark.penalty) if mark else "", _number(each.points)]
        rows.append(row)
    return rows


FORMATS: Mapping[str, Callable[[Sequence[Assignment], Mapping[str, Student], Roster | None], list[list[str]]]] = {
    "canvas": canvas, "moodle": moodle, "csv": plain,
}  # fmt: skip


def export(folder: Path, form: str, *, only: Sequence[str] = (), to: Path, roster: Path | None = None) -> list[str]:
    """Write the grades of a course; returns sentences on what the instructor should know.

    Args:
        folder: the course.
        form: one of `FORMATS`.
        only: assignments; none means all.
        to: the file.
        roster: the file that the platform exported.

    Raises:
        ValueError: the course, an assignment or the roster is not there.
    """
    known, students = read_assignments(folder), read_students(folder)
    if not known:
        raise ValueError(f"{folder} has no gradebook with assignments: make the course with `rooflab course` first.")
    if missing := [name for name in only if name not in known]:
        raise ValueError(
            f"There is no assignment {missing[0]} in {folder}; expected one of {', '.join(sorted(known))}."
        )
    chosen = [known[name] for name in (only or sorted(known))]
    file = read_roster(roster) if roster else None
    text = io.StringIO()
    rows = FORMATS[form](chosen, students, file)
    csv.writer(text, lineterminator="\n").writerows([[_no_formula(cell) for cell in row] for row in rows])
    write_atomic(to, text.getvalue())
    said = [f"Wrote {to}: {len(chosen)} assignments of {len(students)} students."]
    for each in chosen:
        if waiting := sum(mark.waiting for mark in each.marks):
            said.append(f"{each.name}: {waiting} submissions wait for a person's points, which count 0 so far.")
    if file:
        found = {who for _, who in file.students(students)}
        if absent := sorted(students.keys() - found):
            said.append(f"Not in the roster, so not exported: {', '.join(absent[:5])}{', ...' * (len(absent) > 5)}.")
    return said


def _no_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: names and ids may be what students chose.

    >>> _no_formula("=HYPERLINK(A1)"), _no_formula("-1.5"), _no_formula("-")
    ("'=HYPERLINK(A1)", '-1.5', '-')
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or re.fullmatch(r"-[\d.]*", cell):
        return cell
    return f"'{cell}"


def _sorted(students: Mapping[str, Student]) -> list[Student]:
    return sorted(students.values(), key=lambda each: (each.last_name.lower(), each.first_name.lower(), each.id))


def _name_for_sorting(student: Student) -> str:
    return ", ".join(filter(None, [student.last_name, student.first_name])) or student.id


def _mark(assignment: Assignment, student: str) -> Mark | None:
    return next((mark for mark in assignment.marks if mark.student == student), None)


def _score(assignment: Assignment, student: str) -> str:
    """The points; empty for who has not handed in, so that no platform takes that for an earned zero."""
    mark = _mark(assignment, student)
    return "" if mark is None else _number(mark.score)


def _number(value: float) -> str:
    """A number with a point and at most two digits behind it, as Canvas shows them; no thousands."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
