"""How did the class do? One page for the instructor that needs no network and runs no scripts.

What comes from students (names, messages of their errors) is plain text on it.

>>> _cut("a long story", 9)
'a long...'
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from html import escape
from pathlib import Path

from rooflab.files import write_atomic
from rooflab.progress import clock_time
from rooflab.reporting.markup import Html, document, pill, table
from rooflab.units import format_si

from .exercises import Exercise, Reason, exercises_of, gist
from .gradingrun import GradingRun, StudentResult
from .histogramsvg import bars_svg
from .outcome import STOPPED, Outcome

__all__ = ["write_class_report"]

_NOTABLE_S = 0.1  # what takes less was not run
_SLOWEST, _REASONS, _NAMED, _LINES = 10, 4, 12, 6


def write_class_report(path: Path, run: GradingRun) -> Path:
    """Write the report on a run.

    Raises:
        OutputError: the file cannot be written.
    """
    labs = {name: lab for result in run.results for name, lab in result.labs.items()}
    exercises = exercises_of(labs, run.results)
    checked = sorted((one for one in exercises if one.checks), key=lambda one: (-one.lost, one.mean / one.points))
    several = len(labs) > 1
    parts = {
        "overview": ("Overview", _cover(run)),
        "students": ("Students", _students(run.results)),
        "exercises": ("Exercises, hardest first", _hardest(checked, several)),
        "reasons": ("Why points were lost", "".join(_reasons(one) for one in checked if one.reasons)),
        "failures": ("Not graded, or stopped", _failures(run.results)),
        "waiting": ("What waits for you", _waiting(exercises, [one.student for one in run.results if one.failed])),
        "slowest": ("Slowest submissions", _slowest(run.results)),
        "how": ("How it was graded", _how(run)),
    }
    shown = {anchor: part for anchor, part in parts.items() if part[1]}
    entries = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, (title, _) in shown.items())
    contents = f'<nav aria-label="Contents"><p class="brand">Rooflab</p><ul>{entries}</ul></nav>'
    sections = [
        text if anchor == "overview" else f'<section id="{anchor}"><h2>{title}</h2>{text}</section>'
        for anchor, (title, text) in shown.items()
    ]
    page = document(f"{run.assignment}: the class", contents, "\n".join(sections))
    return write_atomic(path, page.encode("utf-8", "replace").decode())  # half characters, which no file takes


def _cover(run: GradingRun) -> str:
    today = datetime.date.today()
    graded = [result for result in run.results if not result.failed]
    lacking = len(run.results) - len(graded)
    state = f"{lacking} not graded" if lacking else "all graded"
    facts = f"{today.day} {today:%B %Y} · {_count(len(run.results), 'student')} · {clock_time(run.seconds)} min"
    head = (
        f'<h1>{escape(run.assignment)}: the class</h1><p class="facts">{escape(facts)} {pill(state, not lacking)}</p>'
    )
    points = max((result.points for result in run.results), default=0.0)
    if not graded or not points:
        return f'<header id="overview">{head}</header>'
    scores = sorted(result.score for result in graded)
    middle = (scores[(len(scores) - 1) // 2] + scores[len(scores) // 2]) / 2
    of_whom = f" Of the {len(graded)} who were graded." if lacking else ""
    told = f"Mean {sum(scores) / len(scores):.3g}, median {middle:.3g}, of {points:g} points that checks give.{of_whom}"
    card = (
        f'<section class="card"><h2>Points</h2>{bars_svg(scores, points, "Points", wide=True)}<p>{told}</p></section>'
    )
    return f'<header id="overview">{head}<div class="cover">{card}</div></header>'


def _students(results: Sequence[StudentResult]) -> str:
    """The whole class: points, what waits for a person, how late, and what else there is to know."""
    rows = [
        [one.student, f"{one.score:g} of {one.points:g}", f"{one.waiting:g}" if one.waiting else "",
         _late(one.late_s), _cut(one.remark, 200)]
        for one in results
    ]  # fmt: skip
    return _words(table(("student", "points", "wait for you", "late", "remark"), rows)) if rows else ""


def _late(seconds: float) -> str:
    days, hours = seconds / 86_400, seconds / 3600
    return "" if not seconds else f"{days:.0f} days" if days >= 2 else f"{hours:.0f} h" if hours >= 2 else "under 2 h"


def _hardest(exercises: Sequence[Exercise], several: bool) -> str:
    rows = []
    for one in exercises:
        where = f"{one.notebook}, {one.name}" if several else one.name
        name = Html(f"{escape(one.title)}<br><code>{escape(where)}</code>")
        picture = Html(bars_svg(list(one.scores.values()), one.points, one.title))
        rows.append([name, picture, f"{one.full} of {len(one.scores)}", f"{one.mean:.2g} of {one.points:g}"])
    return table(("exercise", "students by points", "all points", "mean"), rows) if rows else ""


def _reasons(exercise: Exercise) -> str:
    shown, rest = exercise.reasons[:_REASONS], exercise.reasons[_REASONS:]
    rows = [(_count(len(reason.students), "student"), _note(reason)) for reason in shown]
    more = f'<p class="note">And {_count(len(rest), "reason")} more, each of fewer students.</p>' if rest else ""
    body = "".join(f"<dt>{count}</dt><dd>{note}</dd>" for count, note in rows)
    return f'<h3>{escape(exercise.title)}</h3><dl class="reasons">{body}</dl>{more}'


def _note(reason: Reason) -> str:
    """What the students of a group have in common, and the whole message as the first of them got it."""
    lines = [escape(_cut(line, 180)) for line in reason.note.splitlines()[:_LINES] if line.strip()]
    whole = (
        f"<details><summary>as {escape(reason.students[0])} saw it</summary>{'<br>'.join(lines)}</details>"
        if len(lines) > 1
        else ""
    )
    return f'{escape(_cut(gist(reason.note), 200))}<br><span class="note">{_names(reason.students)}</span>{whole}'


def _failures(results: Iterable[StudentResult]) -> str:
    rows = []
    for result in results:
        for name, outcome in result.outcomes.items():
            for what, why in _wrong(outcome):
                rows.append([result.student, name, Html(pill(what, False)), _cut(why, 200)])
    return _words(table(("student", "notebook", "what", "why"), rows)) if rows else ""


def _wrong(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """What kept answers from being checked: nothing was, code was stopped, a cell did not run."""
    if outcome.failure:
        yield "grader failed" if outcome.lost else "not graded", outcome.failure
        return
    for why in dict.fromkeys(check.note.removeprefix(STOPPED) for check in outcome.checks.values() if check.stopped):
        yield "stopped", why
    for remark in outcome.remarks:
        if "could not be run" in remark:
            yield "cell failed", remark


def _waiting(exercises: Sequence[Exercise], failed: Sequence[str]) -> str:
    rows = [
        [Html(f"{escape(one.title)}<br><code>{escape(one.name)}</code>"),
         "answer in words" if not one.checks else "a check that could not decide",
         str(len(one.waiting)), Html(_names(one.waiting))]
        for one in exercises
        if one.waiting
    ]  # fmt: skip
    if failed:
        rows.append(["all exercises", "could not be graded", str(len(failed)), Html(_names(failed))])
    if not rows:
        return ""
    told = "<p>Open formgrader (<code>nbgrader</code> in JupyterLab, Manual Grading): these are flagged there.</p>"
    return told + _words(table(("exercise", "what", "students", "who"), rows))


def _slowest(results: Sequence[StudentResult]) -> str:
    slow = sorted((one for one in results if one.seconds >= _NOTABLE_S), key=lambda one: -one.seconds)[:_SLOWEST]
    rows = [
        [
            one.student,
            format_si(one.seconds, "s"),
            f"{one.score:g} of {one.points:g}",
            "before" if one.done_before else "now",
        ]
        for one in slow
    ]
    return table(("student", "time", "points", "graded"), rows) if rows else ""


def _how(run: GradingRun) -> str:
    options, fresh = run.options, len(run.fresh)
    rate = f", {run.per_minute:.3g} a minute" if fresh else ""
    told = {
        "sandbox": run.level or "not needed",
        "graded now": f"{fresh} of {len(run.results)} in {clock_time(run.seconds)} min{rate}",
        "where": f"{options.executor}, {_count(options.jobs, 'submission')} at a time",
        **{
            _limit_name(field.name): _limit(field.name, getattr(options.limits, field.name))
            for field in fields(options.limits)
        },
    }
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in told.items()) + "</dl>"


def _limit_name(name: str) -> str:
    words = {
        "call_s": "time for one call", "total_s": "time in all", "memory_bytes": "memory",
        "file_bytes": "size of a file", "disk_bytes": "size of all files", "output_bytes": "printed",
    }  # fmt: skip
    return f"limit: {words.get(name, name)}"


def _limit(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return f"{value / 2**20:g} MiB"
    return f"{value:g} s" if name.endswith("_s") else f"{value:g}"


def _names(students: Sequence[str]) -> str:
    shown = ", ".join(escape(student) for student in students[:_NAMED])
    return shown + (f" and {len(students) - _NAMED} more" if len(students) > _NAMED else "")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _words(made: str) -> str:
    """A table whose cells hold sentences."""
    return made.replace('class="scroll"', 'class="scroll words"', 1)
