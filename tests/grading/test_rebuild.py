"""The instructor's notebook is put together again, whatever the submission says of itself."""

import codecs
import json
import os

import pytest

from rooflab.grading.lab import LabCell, LabNotebook, bound_names, imports_of
from rooflab.grading.plainnotebook import MOST_CELLS, Cell, NotebookError, cells_of, read_bytes
from rooflab.grading.rebuild import rebuild

LAB = LabNotebook(
    "lab",
    (
        LabCell("text", "# Lab", "# Lab", cell_type="markdown"),
        LabCell("setup", "import math", "import math"),
        LabCell("demo", "draw()", "draw()"),
        LabCell("locked", "A = 1", "A = 1", "given"),
        LabCell("solution", "def f(): ...", "def f(): ...", "f", binds=("f",)),
        LabCell("check", "import random\nassert f() == 1", "import random\nassert f() == 1", "f-1", 1.0),
        LabCell("check", "assert f() == 1  # hidden", "", "f-2", 2.0),
        LabCell("solution", "def g(): ...", "def g(): ...", "g", binds=("g",)),
        LabCell("check", "assert g() == 2", "assert g() == 2", "g-1", 1.0),
        LabCell("written", "ANSWER", "ANSWER", "why", 5.0, cell_type="markdown"),
    ),
)


def cell(name, source="", kind="code", **marks):
    return Cell(kind, source, grade_id=name, marks={"grade_id": name, **marks})


def handed(**answers):
    """The lab as it was handed out, with these answers."""
    return [Cell(own.cell_type, answers.get(own.name, own.released), grade_id=own.name) for own in LAB.cells]


def told(plan):
    return [(step.kind, step.name or step.source) for step in plan.steps]


def test_answers_run_in_the_guest_and_checks_in_their_places():
    plan = rebuild(LAB, handed(f="def f(): return 1", why="because"))
    assert told(plan) == [
        ("extra", "import math"),
        ("locked", "given"),
        ("solution", "f"),
        ("imports", "f-1"),
        ("check", "f-1"),
        ("check", "f-2"),
        ("solution", "g"),
        ("check", "g-1"),
    ]
    assert plan.answers == {"f": "def f(): return 1", "g": "def g(): ...", "why": "because"}
    assert plan.remarks == plan.lacking == ()
    assert next(step for step in plan.steps if step.kind == "imports").source == "import random"


def test_checks_and_read_only_cells_are_the_instructors():
    cells = handed(given="A = 100", **{"f-1": "pass", "f-2": "pass", "g-1": "assert True"})
    plan = rebuild(LAB, cells)
    sources = [step.source for step in plan.steps]
    assert "pass" not in sources
    assert "A = 100" not in sources
    assert "assert f() == 1  # hidden" in sources


def test_cells_out_of_order_are_run_in_the_students_order_and_checks_wait_for_their_answers():
    cells = handed(f="F", g="G")
    first = [cell for cell in cells if cell.grade_id in ("f-1", "g-1")]
    plan = rebuild(LAB, first + [cell for cell in cells[::-1] if cell not in first])
    order = [name for kind, name in told(plan) if kind != "imports"]
    assert order.index("g") < order.index("f") < order.index("f-1")
    assert order.index("f") < order.index("g-1")


def test_what_was_deleted_is_put_back():
    plan = rebuild(LAB, [cell("f", "def f(): return 1")])
    assert told(plan) == [
        ("setup", "import math"),
        ("locked", "given"),
        ("solution", "f"),
        ("check", "f-1"),
        ("check", "f-2"),
        ("check", "g-1"),
    ]
    assert plan.lacking == ("g", "why")
    assert "lacks 2 answers (g, why)" in plan.remarks[0]


def test_a_changed_cell_of_the_instructors_runs_beside_its_original():
    cells = handed()
    cells[1] = Cell("code", "import math, os")
    assert told(rebuild(LAB, cells))[:3] == [
        ("setup", "import math"),
        ("extra", "import math, os"),
        ("locked", "given"),
    ]


def test_the_last_of_twins_is_graded_and_strangers_are_run():
    cells = [*handed(f="first"), cell("f", "second"), cell("unknown", "x = 1")]
    plan = rebuild(LAB, cells)
    assert plan.answers["f"] == "second"
    assert [step.source for step in plan.steps if step.name == "f"] == ["second"]
    assert ("extra", "x = 1") in told(plan)
    assert ["several times" in remark or "does not know" in remark for remark in plan.remarks] == [True, True]


def test_a_mark_as_long_as_a_book_is_told_in_a_sentence():
    [remark] = rebuild(LAB, [*handed(), cell("x" * 10**6)]).remarks
    assert len(remark) < 200


def test_types_and_tags_of_a_submission_do_not_count():
    cells = handed(f="def f(): return 1")
    cells[4] = cell("f", "def f(): return 1", kind="markdown")
    cells[5] = Cell(
        "code", "pass", grade_id="f-1", tags=("skip-execution", "demo"), marks={"grade": False, "points": 99}
    )
    assert ("solution", "f") in told(rebuild(LAB, cells))
    assert ("check", "f-1") in told(rebuild(LAB, cells))


NOTEBOOK = {
    "cells": [{"cell_type": "code", "source": ["a\n", "b"], "metadata": {"nbgrader": {"grade_id": "f"}}}],
    "nbformat": 4,
}


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(NOTEBOOK).encode(),
        codecs.BOM_UTF8 + json.dumps(NOTEBOOK).encode(),
        json.dumps(NOTEBOOK).encode("utf-16"),
        json.dumps(NOTEBOOK).encode("utf-32"),
        json.dumps(NOTEBOOK | {"nbformat": 5, "nbformat_minor": 9}).encode(),
        json.dumps(
            {
                "worksheets": [
                    {"cells": [{"cell_type": "code", "input": "a\nb", "metadata": {"nbgrader": {"grade_id": "f"}}}]}
                ],
                "nbformat": 3,
            }
        ).encode(),
        json.dumps(NOTEBOOK | {"metadata": {"widgets": {"application/vnd.jupyter.widget-state+json": {}}}}).encode(),
    ],
    ids=["utf-8", "bom", "utf-16", "utf-32", "future", "version 3", "widget state without state"],
)
def test_notebooks_of_any_version_and_encoding_are_read(raw):
    [found] = cells_of(raw)
    assert (found.cell_type, found.source, found.grade_id) == ("code", "a\nb", "f")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"{", "is broken"),
        (b"[]", "is no notebook"),
        (b"{}", "has no cells"),
        (b'{"cells": 3}', "has no cells"),
        (b"\x89PNG\0\r\n\xff", "is no text"),
        (b"[" * 100_000, "nested too deep"),
        (json.dumps({"cells": [{}] * (MOST_CELLS + 1)}).encode(), "5,001 cells"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_notebook_is_said_in_a_sentence(raw, says):
    with pytest.raises(NotebookError, match=says) as caught:
        cells_of(raw, "lab.ipynb")
    assert str(caught.value).startswith("lab.ipynb ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"source": 5},
        {"source": [1, None, "x"]},
        {"metadata": []},
        {"metadata": {"nbgrader": "x"}},
        {"metadata": {"tags": 5}},
        {"id": 7},
        {"cell_type": {}},
        {"metadata": {"nbgrader": {"grade_id": ["f"]}}},
        {"source": "\ud800"},
    ],
    ids=repr,
)
def test_cells_of_the_wrong_types_are_still_cells(change):
    [found] = cells_of(json.dumps({"cells": [NOTEBOOK["cells"][0] | change, 5, None]}).encode())
    assert isinstance(found.source, str)
    found.source.encode()


def test_only_regular_files_of_a_size_are_read(tmp_path):
    path, link, folder = tmp_path / "lab.ipynb", tmp_path / "link.ipynb", tmp_path / "folder.ipynb"
    path.write_bytes(b"x" * 100)
    link.symlink_to(path)
    folder.mkdir()
    assert read_bytes(path) == b"x" * 100
    for wrong, says in ((link, "is a link"), (folder, "is no file"), (tmp_path / "none.ipynb", "cannot be opened")):
        with pytest.raises(NotebookError, match=says):
            read_bytes(wrong)
    with pytest.raises(NotebookError, match="clear its outputs"):
        read_bytes(path, 99)


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="folders can be opened one after another on Unix only")
def test_no_folder_on_the_way_is_a_link(tmp_path):
    path = tmp_path / "submitted" / "ada" / "week1" / "lab.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"ada's")
    (tmp_path / "submitted" / "eve").mkdir()
    (tmp_path / "submitted" / "eve" / "week1").symlink_to(path.parent)
    (tmp_path / "submitted" / "bo").symlink_to(path.parent.parent)
    assert read_bytes(path, folders=3) == b"ada's"
    for name in ("eve", "bo"):
        with pytest.raises(NotebookError, match="cannot be opened"):
            read_bytes(tmp_path / "submitted" / name / "week1" / "lab.ipynb", folders=3)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass\nasync def g(): pass\nclass C: x = 1", ["f", "g", "C"]),
        ("a = b = 1; c, (d, *e) = 1, (2, 3)\nf: int = 3\ng += 1", ["a", "b", "c", "d", "e", "f", "g"]),
        (
            "for i in x: j = i\nwhile (k := 1): pass\nwith open(p) as h: pass\ntry:\n    y = 1\nexcept E as z: pass",
            ["i", "j", "k", "h", "y"],
        ),
        (
            "import os.path, numpy as np\nfrom a import b as c, d\nfrom e import *\ntry:\n    import f\nfinally: g = 1",
            ["g"],
        ),
        ("def f():\n    inner = 1\nl = lambda q: q\nm = [n for n in r]", ["f", "l", "m"]),
        ("%matplotlib inline\n!ls\nx = 1", ["x"]),
        ("%%time\nx = 1", ["x"]),
        ("%%writefile x.py\nx = 1", []),
        ("a = %timeit -o f()\nb = c = 5 % 3\n!ls\nd = !ls", ["a", "b", "c", "d"]),
        ("x = ('%s'\n     % 5)", ["x"]),
        ("def broken(", []),
        ("x = '\0'", []),
    ],
)
def test_names_that_code_binds(source, names):
    assert sorted(bound_names(source)) == sorted(names)


@pytest.mark.parametrize(
    "check",
    ["%timeit f(3)", "t = %timeit -o f(3)", "%%capture shown\nf(3)", "eval('f(3)')", "globals()['f'](3)", "!ls\nf(3)",
     "getattr(it, 'f')", "print(f'{f(3)}')", "assert 1, ('%s'\n  % f(3))", "%%time -x\nf(3)", "def broken(: f"],
)  # fmt: skip
def test_a_check_may_use_an_answer_in_any_way(check):
    cells = (LabCell("solution", "", "", "f", binds=("f", "g")), LabCell("check", check, check, "f-1", 1.0))
    assert LabNotebook("lab", cells).asked & {"f", "g"} == {"f"}


def test_imports_with_their_names():
    found = imports_of(
        "import a.b\nif x:\n    from c import d, e\nfrom . import f\ndef g(): import h\n%magic\nfrom i import *"
    )
    assert found == {"a.b": [], "c": ["d", "e"], "h": [], "i": []}


def test_a_lab_is_the_same_after_a_journey():
    assert LabNotebook.from_json(LAB.to_json()) == LAB
