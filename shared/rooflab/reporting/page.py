"""What is on the page that the tour leaves?

>>> _caption("It fits. A roof and two dots")
'<strong>It fits.</strong>'
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..classroom import ExerciseScore, Grading
from ..devicecard import CEILING_HEADER, ceiling_rows
from ..execute import Execution
from ..extras import require
from ..files import write_atomic
from ..progress import clock_time
from ..runs import HEADER, failures, grading_problems, summary_rows
from .cells import Page, picture, render
from .markup import Html, document, pill, table
from .roofsvg import roofline_svg

__all__ = ["write_report"]


def write_report(
    path: Path,
    *,
    title: str,
    device: Mapping[str, Any] | None,
    executions: Sequence[Execution],
    gradings: Sequence[Grading] = (),
    problems: Sequence[str] = (),
    seconds: float | None = None,
) -> Path:
    """Write one HTML file that needs nothing else: no network, no script, no second file.

    Args:
        path: the file.
        title: of the page.
        device: what `devicecard.describe` found; None when that failed.
        executions: the notebooks that were run, in order.
        gradings: the labs that were graded.
        problems: what went wrong beside the failures of notebooks and grades, one sentence each.
        seconds: how long everything took.

    Raises:
        MissingExtra: nbconvert is not installed.
        OutputError: the file cannot be written.
    """
    require("lab", "nbconvert", "bs4")
    pages = [render(execution.notebook, execution.name) for execution in executions]
    told = [*problems, *failures(executions), *grading_problems(gradings)]
    sections = [
        _cover(title, device, seconds, told),
        _problems_section(told),
        _runs_section(executions, pages),
        _grading_section(gradings),
        _figures_section(executions, pages),
        *(_notebook_section(execution, page) for execution, page in zip(executions, pages, strict=True)),
    ]
    return write_atomic(path, document(title, _contents(executions, pages, gradings), "\n".join(sections)))


def _contents(executions: Sequence[Execution], pages: Sequence[Page], gradings: Sequence[Grading]) -> str:
    entries = ['<li><a href="#overview">Overview</a></li>', '<li><a href="#runs">What ran</a></li>']
    if gradings:
        entries.append('<li><a href="#grades">Grades</a></li>')
    if any(page.figures for page in pages):
        entries.append('<li><a href="#figures">Figures</a></li>')
    for execution, page in zip(executions, pages, strict=True):
        inner = "".join(f'<li><a href="#{anchor}">{escape(text)}</a></li>' for anchor, text in page.headings)
        below = f"<ol>{inner}</ol>" if inner else ""
        entries.append(f'<li><a href="#{execution.name}">{escape(page.title)}</a>{below}</li>')
    return f'<nav aria-label="Contents"><p class="brand">Rooflab</p><ul>{"".join(entries)}</ul></nav>'


def _cover(title: str, device: Mapping[str, Any] | None, seconds: float | None, told: Sequence[str]) -> str:
    today = datetime.date.today()
    facts = [f"{today.day} {today:%B %Y}"]
    if device is not None:
        facts = [device["device"].get("device", ""), *facts, f"rooflab {device['rooflab']}"]
    if seconds is not None:
        facts.append(f"{clock_time(seconds)} min")
    state = f"{len(told)} problem{'s' if len(told) > 1 else ''}" if told else "all went well"
    head = (
        f'<h1>{escape(title)}</h1><p class="facts">{escape(" · ".join(filter(None, facts)))} '
        f'<span class="pill {"bad" if told else "good"}">{state}</span></p>'
    )
    if device is None:
        return f'<header id="overview">{head}</header>'
    card = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in device["device"].items())
    versions = ", ".join(f"{name} {version}" for name, version in device["versions"].items())
    card += f"<dt>versions</dt><dd>{escape(versions)}</dd>" if versions else ""
    ceilings = device["ceilings"]
    rows = ceiling_rows(ceilings, device["datasheet"])
    shown = 4 if device["datasheet"] else 2  # without a datasheet there is nothing to set beside the measurement
    beside = table(CEILING_HEADER[:shown], [row[:shown] for row in rows])
    return (
        f'<header id="overview">{head}<div class="cover"><section class="card"><h2>The device</h2><dl>{card}</dl>'
        f'</section><section class="card"><h2>Its ceilings, measured {escape(str(ceilings["date"]))}</h2>'
        f'<div class="ceilings">{roofline_svg(ceilings)}{beside}</div></section></div></header>'
    )


def _problems_section(told: Sequence[str]) -> str:
    if not told:
        return ""
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in told)
    return f'<section id="problems" class="problems"><h2>What went wrong</h2><ul>{items}</ul></section>'


def _runs_section(executions: Sequence[Execution], pages: Sequence[Page]) -> str:
    rows = []
    for execution, page, row in zip(executions, pages, summary_rows(executions), strict=True):
        link = f'<a href="#{execution.name}">{escape(page.title)}</a><br><code>{escape(execution.name)}</code>'
        rows.append([Html(link), *row[1:-1], Html(pill(row[-1], execution.ok))])
    shown = table(HEADER, rows) if rows else "<p>No notebook was run.</p>"
    return f'<section id="runs"><h2>What ran</h2>{shown}</section>'


def _grading_section(gradings: Sequence[Grading]) -> str:
    if not gradings:
        return ""
    parts = [
        '<section id="grades"><h2>Grades</h2><p>nbgrader graded two submissions: the lab as it is handed out, '
        "and the lab with its solutions.</p>"
    ]
    for grading in gradings:
        if grading.error:
            parts.append(f"<p>{escape(grading.lab)} was not graded: {escape(grading.error)}</p>")
            continue
        rows: list[list[str]] = [
            [blank.title, _score(blank), _score(solved)]
            for blank, solved in zip(grading.blank.exercises, grading.solved.exercises, strict=True)
        ]
        total = [f"{grade.score:g} / {grade.points:g}" for grade in (grading.blank, grading.solved)]
        verdict = Html(pill(f"untouched {total[0]}, solved {total[1]}", grading.ok))
        rows.append([Html("<strong>Checked automatically</strong>"), *total])
        parts.append(f"<h3>{escape(grading.lab)} {verdict}</h3>{table(('exercise', 'untouched', 'solved'), rows)}")
    return "".join(parts) + "</section>"


def _score(exercise: ExerciseScore) -> str:
    return f"by hand, {exercise.points:g}" if exercise.written else f"{exercise.score:g} / {exercise.points:g}"


def _figures_section(executions: Sequence[Execution], pages: Sequence[Page]) -> str:
    parts = []
    for page in pages:
        if page.figures:
            shown = "".join(
                f"<figure>{picture(figure)}<figcaption>{_caption(figure.alt)} "
                f'<a href="#{figure.anchor}">in the notebook</a></figcaption></figure>'
                for figure in page.figures
            )
            parts.append(f'<h3>{escape(page.title)}</h3><div class="gallery">{shown}</div>')
    return f'<section id="figures"><h2>Figures</h2>{"".join(parts)}</section>' if parts else ""


def _caption(alt: str) -> str:
    """The message alone; what there is to see stays in the picture's alternative text."""
    message, stop, _ = alt.partition(". ")
    return f"<strong>{escape(message)}{stop.strip()}</strong>"


def _notebook_section(execution: Execution, page: Page) -> str:
    ran = f"{len(execution.cell_seconds)} of {execution.cells} cells, {clock_time(execution.seconds)}"
    return (
        f'<section class="notebook" id="{execution.name}"><h2>{escape(page.title)}</h2>'
        f'<p class="facts"><code>{escape(execution.name)}</code> · {ran} '
        f"{pill('ok' if execution.ok else 'FAILED', execution.ok)}</p>{page.body}</section>"
    )
