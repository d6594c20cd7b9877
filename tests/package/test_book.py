import json
import os
import re
import shutil
from pathlib import Path

import pytest

from rooflab import book, bookmap
from rooflab.book import Book, Exercise, Lab, Series, Unit, UnknownUnit, find, find_root, open_book

UNITS = ("u1_step_cost", "u2_roofline", "u10_last")
SMALL = Book(
    Path("/book"),
    (
        Series("s1_measurement", tuple(Unit(f"s1_measurement/{name}", name) for name in UNITS)),
        Series("s2_hardware", (Unit("s2_hardware/u1_chips", "Chips"),), (Lab("s2_hardware/lab1_minifloat", "Mini"),)),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("s1_measurement/u1_step_cost", "s1_measurement/u1_step_cost"),
        ("u1_step_cost", "s1_measurement/u1_step_cost"),
        ("s1/u1", "s1_measurement/u1_step_cost"),
        ("s1/u2_roofline", "s1_measurement/u2_roofline"),
        ("s2_hardware/u1", "s2_hardware/u1_chips"),
        ("u10", "s1_measurement/u10_last"),
        ("lab1", "s2_hardware/lab1_minifloat"),
        ("./chapters/s1_measurement/u2_roofline.py", "s1_measurement/u2_roofline"),
        ("/book/solutions/s2_hardware/lab1_minifloat.ipynb", "s2_hardware/lab1_minifloat"),
    ],
)
def test_units_have_short_names(name, unit):
    assert find(SMALL, name).id == unit


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("u1_step_cots", "There is no unit 'u1_step_cots'. Did you mean s1_measurement/u1_step_cost"),
        ("u1", "'u1' fits several units: s1_measurement/u1_step_cost, s2_hardware/u1_chips. Write one in full."),
        ("qqqqqqqq", "There is no unit 'qqqqqqqq'. There are s1_measurement/u1_step_cost, "),
        ("", "There is no unit ''."),
    ],
)
def test_unknown_names_get_a_sentence(name, sentence):
    with pytest.raises(UnknownUnit) as caught:
        find(SMALL, name)
    assert str(caught.value).startswith(sentence)


def test_outside_a_clone_there_is_no_book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(book, "__file__", str(tmp_path / "site-packages" / "rooflab" / "book.py"))
    assert find_root() is None
    assert open_book() == Book(None)
    with pytest.raises(UnknownUnit, match="run this inside a clone of the Rooflab repository"):
        find(open_book(), "u1")
    assert "outside a clone" in bookmap.render_text(Book(None), {})
    assert "outside a clone" in bookmap.render_html(Book(None), {}, base=tmp_path)


def test_the_root_is_above_the_working_folder_or_where_the_package_lies(book_folder, tmp_path, monkeypatch):
    assert find_root(book_folder / "chapters" / "s9_demo") == book_folder
    monkeypatch.chdir(tmp_path)
    assert find_root() == Path(book.__file__).resolve().parents[2]


def test_the_folders_are_the_table_of_contents(book_folder):
    found = open_book()
    assert [unit.id for unit in found.units] == ["s9_demo/u1_demo"]
    [lab] = found.labs
    assert lab.exercises == (
        Exercise("middle", "Exercise 1: the middle", 5),
        Exercise("normalize", "Exercise 2: normalize", 5),
        Exercise("why", "A question", 4, written=True),
    )
    assert (lab.title, lab.points) == ("A demo lab", 14)
    assert lab.solution == book_folder / "solutions" / "s9_demo" / "lab1_demo.ipynb"
    assert found.series[0].title == "9 Demo"
    shutil.rmtree(book_folder / "solutions")  # as a student has it
    assert open_book().labs[0].solution is None
    shutil.rmtree(book_folder / "labs")
    shutil.rmtree(book_folder / "chapters" / "s9_demo")
    assert open_book().series == ()


def test_units_stand_in_the_order_of_their_numbers(book_folder):
    folder = book_folder / "chapters" / "s9_demo"
    for name in ("u10_b", "u2_a"):
        shutil.copy(folder / "u1_demo.ipynb", folder / f"{name}.ipynb")
    assert [unit.name for unit in open_book().units] == ["u1_demo", "u2_a", "u10_b"]


@pytest.mark.parametrize(
    ("text", "title", "question"),
    [
        (
            "# T\n\n[![b](x)](y)\n\nIt runs at 200 GFLOP/s. *Is that good?* We see.",
            "T",
            "It runs at 200 GFLOP/s. Is that good?",
        ),
        ("# T\n\nA clock that never moves. Somebody lies. Who?\n\nMore?", "T", "Somebody lies. Who?"),
        ("# A **title**\n\nNo question at all.", "A **title**", ""),
        ("# T\n\nSo. Does `a_b` cost 2.5 ms on that machine?", "T", "Does a_b cost 2.5 ms on that machine?"),
        ("no heading", "default", ""),
    ],
)
def test_title_and_question_come_from_the_first_cell(text, title, question):
    cells = [{"cell_type": "code", "source": "1"}, {"cell_type": "markdown", "source": text.splitlines(keepends=True)}]
    assert book._title(cells, "default") == (title, question)


@pytest.mark.parametrize(
    ("text", "code", "duration"),
    [
        ("# T\n\nYou answer one question. Allow two\nhours. Then", 5, "two hours"),
        ("Allow about 90 minutes for it.", 5, "about 90 minutes"),
        ("Allow nothing to run beside it for hours. " + "word " * 2392, 20, "about 30 minutes"),
        ("word", 0, "about 5 minutes"),
    ],
)
def test_the_time_of_a_unit_is_what_it_says_or_what_it_takes_to_read_and_run(text, code, duration):
    cells = [{"cell_type": "markdown", "source": text}] + code * [{"cell_type": "code", "source": "1"}]
    assert book._duration(cells) == duration


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "null"])
def test_a_broken_notebook_does_not_hide_the_others(book_folder, text):
    (book_folder / "chapters" / "s9_demo" / "u2_broken.ipynb").write_text(text)
    assert [unit.title for unit in open_book().units] == ["What does a demo cost?", "u2_broken"]


def test_the_map_links_from_the_notebook_s_folder_and_counts_progress(book_folder):
    found = open_book()
    done = {"s9_demo/lab1_demo": {"middle": "2026-11-29", "why": "2026-11-29", "renamed": "2026-11-29"}}
    html = bookmap.render_html(found, done, base=book_folder / "chapters")
    assert 'href="s9_demo/u1_demo.ipynb"' in html
    assert 'href="../labs/s9_demo/lab1_demo.ipynb"' in html
    assert "1 of 2 exercises passed, 14 points in all" in html
    assert len(re.findall(r">about \d+ minutes</span>", html)) == 2
    assert "width:50%" in html
    assert "<b>" not in bookmap.render_html(
        Book(book_folder, (Series("s1_x", (Unit("s1_x/u1", "<b>", "<b>?", book_folder / "u1.ipynb"),)),)),
        {},
        base=book_folder,
    )
    text = bookmap.render_text(found, done)
    assert re.search(r"s9_demo/lab1_demo  A demo lab, 14 points \(about \d+ minutes\)  \[#{10}\.{10}\] 1 of 2", text)


def test_the_map_is_shown_with_what_the_checks_noted(book_folder, monkeypatch, capsys):
    monkeypatch.setenv("ROOFLAB_HOME", str(book_folder / "home"))
    from rooflab.records import note_progress

    note_progress("s9_demo/lab1_demo", "middle")
    book.show_map()
    assert "1 of 2" in capsys.readouterr().out
    assert json.loads((book_folder / "home" / "progress.json").read_text())["s9_demo/lab1_demo"]["middle"]
    assert os.listdir(book_folder / "home") == ["progress.json"]
