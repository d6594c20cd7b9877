"""Graded notebooks, comments and sandboxes hold nothing of a submission that could harm who reads them."""

import base64
import json
import sys
import time
from types import SimpleNamespace

import pytest

from rooflab.grading.examine import _worth
from rooflab.grading.gradebook import readable
from rooflab.grading.graded import graded_notebook, without_html
from rooflab.grading.lab import LabCell, LabNotebook
from rooflab.grading.outcome import Outcome
from rooflab.grading.plainnotebook import Cell, NotebookError, cells_of
from rooflab.grading.sandbox.places import places

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def text(source, **more):
    return {"cell_type": "markdown", "metadata": {"nbgrader": {"grade_id": "why"}}, "source": source, **more}


def graded(*cells):
    lab = LabNotebook("lab", (LabCell("written", "", "", "why", 1.0, cell_type="markdown"),))
    return json.loads(graded_notebook(lab, cells_of(json.dumps({"cells": cells}).encode()), Outcome("lab")))["cells"]


def test_pictures_in_answers_stay_and_others_are_not_asked_for():
    kept = {"a.png": {"image/png": PICTURE}, "b.html": {"text/html": "<script>"}}
    [cell] = graded(text("![](attachment:a.png) ![](attachment:b.html) ![](attachment:c.png)", attachments=kept))
    assert cell["attachments"] == {"picture-1": {"image/png": PICTURE}}
    assert "".join(cell["source"]) == "![](attachment:picture-1) [](no-attachment:b.html) [](no-attachment:c.png)"


@pytest.mark.parametrize(
    "source", ["![](attachment:my%20pic.png)", "![](<attachment:my pic.png>)", "![](attachment:a)"]
)
def test_pictures_are_found_whatever_their_names_are(source):
    pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    kept = {name: {"image/png": PICTURE} for name in ("my pic.png", "a", "ab.png")}
    [cell] = graded(text(f"{source} ![](attachment:ab.png)", attachments=kept))
    renderer = IPythonRenderer(escape=False, attachments=cell["attachments"])
    page = MarkdownWithMath(renderer=renderer).render("".join(cell["source"]))
    assert page.count(f"data:image/png;base64,{PICTURE}") == 2


@pytest.mark.parametrize("source", ["`if a <b>c`", "~~~\nif a <b>c\n~~~", "if a <b>c", "    if a <b>c", "&lt;b>c"])
def test_code_in_an_answer_is_shown_as_it_was_written(source):
    pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    from nbconvert.filters import markdown2html

    page = markdown2html(without_html(source))
    assert "<b>" not in page
    assert "&amp;lt;" not in page
    assert "&lt;\u2060b&gt;c" in page


LINKS = [
    "[x](javascript:f())", r"[x](JavaScript\:f())", "[x](java&#115;cript:f())", "[x](java&amp;#115;cript:f())",
    "[x](javascript&colon;f())", "[x]: vbscript:f", "<a href=x>", f"[x](java&{'amp;' * 11}#115;cript:f())",
]  # fmt: skip


@pytest.mark.parametrize("source", LINKS)
def test_links_that_run_code_do_not(source):
    pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    from nbconvert.filters import markdown2html

    page = markdown2html(without_html(f"{source}\n\n[x]"))
    assert "href" not in page or "script:" not in page.lower()
    assert "<a href=x" not in page


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("![a](http://elsewhere/a.png) ![b][c]", "[a](http://elsewhere/a.png) [b][c]"),
        ("!![a](http://elsewhere/a.png) !!![b]", "[a](http://elsewhere/a.png) [b]"),
        ("![b](attached:picture-1 of b)", "[b](attached:picture-1 of b)"),
        ("![a`](attached:picture-1)`][b]", "[a`](attached:picture-1)`][b]"),
        ('well!![b](attached:picture-1 "b")', 'well!![b](attached:picture-1 "b")'),
        ("[x](data:text/html;base64,PGI+)", "[x](data :text/html;base64,PGI+)"),
        ("[x](file:///etc/passwd), data: none", "[x](file :///etc/passwd), data: none"),
        (r"$\newcommand{\h}[1]{\href{java#1:f()}{x}}$", r"$\newcommand{\h}[1]{\texthref{java#1:f()}{x}}$"),
        (r"$\mmlToken{mi}[href=x]{y} \style{x}{y}$", r"$\textmmlToken{mi}[href=x]{y} \textstyle{x}{y}$"),
        ("[" * 5000, "\uff3b" * 5000),
        (r"\\(" * 5000, r"\\ (" * 5000),
        ("!" * 200_000, "!" * 200_000),
    ],
)
def test_nothing_is_asked_for_or_opened_elsewhere(source, shown):
    assert without_html(source) == shown


def test_a_text_that_opens_a_million_links_is_shown_soon():
    begun = time.process_time()
    many = {f"{number:06}": {"image/png": "x"} for number in range(200_000)}
    [cell, _] = graded(text("![" * 500_000, attachments=many), text("attachment:" * 100_000) | {"metadata": {}})
    assert "attachments" not in cell
    assert time.process_time() - begun < 10


def ungraded():
    """What nbgrader's gradebook says of a notebook without a graded cell."""
    handed = SimpleNamespace(student=SimpleNamespace(id="ada"), timestamp=None)
    return SimpleNamespace(grades=(), comments=(), late_submission_penalty=0, assignment=handed)


def test_megabytes_of_code_are_shown_without_colours():
    pytest.importorskip("nbgrader", reason="nbgrader is not installed")
    from rooflab.grading.feedback import FeedbackWriter

    lab, writer, submission = LabNotebook("lab", ()), FeedbackWriter(), ungraded()
    cells = [Cell("code", "def f(): return 1"), Cell("code", "a = a as <b> " * 150_000), Cell("markdown", "$a$ " * 9)]
    page = writer.page(graded_notebook(lab, cells, Outcome("lab")), lab, submission)
    assert '<span class="k">def</span>' in page
    assert '<span class="k">as</span>' not in page
    assert "as &lt;b&gt; a" in page
    assert page.count("$a$ ") == 9, "what comes behind it too"


@pytest.mark.parametrize("trap", [" \n", "\n", "'\\N{", "\t \n\f\n"])
def test_code_that_is_slow_to_colour_is_shown_soon(trap):
    pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    from nbconvert.filters.highlight import Highlight2HTML

    begun = time.process_time()
    source = f"a = 1\n{trap * (400_000 // len(trap))}\nb = 2"
    [cell, _] = graded({"cell_type": "code", "metadata": {}, "source": source})
    shown = Highlight2HTML(pygments_lexer="python")("".join(cell["source"]))
    assert '<span class="mi">' in shown
    assert time.process_time() - begun < 20


def test_code_in_an_answer_has_colours_where_it_is_python():
    pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    from nbconvert.filters import markdown2html

    for language, colours in (("python", True), ("py ", True), ("perl", False), ("mermaid", False), ("", False)):
        for mark in ("```", "~~~~"):
            source = f"> {mark}{language}\n> if 1: pass\n> {mark}\n>\n> after"
            page = markdown2html(without_html(source))
            assert ('<span class="' in page) is colours, page
            assert "<p>after" in page
            assert "Mermaid" not in page
    begun = time.process_time()
    markdown2html(without_html("~~~python\n" + " \n" * 100_000 + "\n~~~\n" + "`" * 200_000 + "~" * 200_000))
    assert time.process_time() - begun < 20


def test_nothing_of_a_page_is_kept_for_the_next_one():
    pytest.importorskip("nbgrader", reason="nbgrader is not installed")
    from rooflab.grading.feedback import FeedbackWriter

    lab, writer, submission = LabNotebook("lab", ()), FeedbackWriter(), ungraded()
    shown = {"0": ({"output_type": "display_data", "data": {"image/png": PICTURE}, "metadata": {}},)}
    cells = [Cell("code", "draw()"), Cell("code", "a = 1\n" * 10_000), Cell("markdown", "word " * 10_000)]
    graded = graded_notebook(lab, cells, Outcome("lab", outputs=shown))
    pages = [writer.page(graded, lab, submission) for _ in range(3)]
    assert pages[0] == pages[2]
    assert len(writer.renderer.figures) == 1
    assert writer._code.cache_info().currsize == 1
    assert writer._markdown.cache_info().currsize == 0


def test_comments_are_text_that_a_database_takes():
    assert readable("half \ud800, nothing \0").encode("utf-8")
    assert "\0" not in readable("\0")


@pytest.mark.parametrize(("value", "score"), [(None, 4.0), ("text", 4.0), (True, 4.0), (3, 3.0), (0.0, 0.0)])
def test_points_that_a_check_gives(value, score):
    assert _worth(value, 4.0)[0] == score


@pytest.mark.parametrize("value", [False, -1, 5, float("nan"), complex(1), object()])
def test_points_that_only_a_person_can_give(value):
    assert _worth(value, 4.0)[0] is None


def test_an_array_is_not_all_points():
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    assert _worth(np.zeros(3), 4.0)[0] is None
    assert _worth(np.int64(2), 4.0) == (2.0, "This check gave 2 of 4 points.")


def test_a_file_of_millions_of_parts_is_refused_before_it_is_read():
    with pytest.raises(NotebookError, match="millions of parts"):
        cells_of(b"[" * 3_000_001)


def test_no_folder_that_holds_the_course_is_shown(tmp_path, monkeypatch):
    (tmp_path / "classes" / "course").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "classes")])
    assert str(tmp_path / "classes") in places().read
    found = places(hidden=[tmp_path / "classes" / "course"])
    assert str(tmp_path / "classes") not in (*found.read, *found.search)
