import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rooflab import plaintext

SHARED = Path(plaintext.__file__).resolve().parents[1]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def rooflab(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "rooflab", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SHARED), **ASCII, **environment},
        capture_output=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "typed"),
    [("3 µs × 2", "3 us x 2"), ("t₀ ≤ Q/β", "t0 <= Q/beta"), ("Zoë – ✓", "Zoe - ok"), ("数", "?"), ("\udcc3", "?")],
)
def test_every_character_has_something_in_its_place(text, typed):
    assert text.encode("ascii", errors=plaintext.ERRORS).decode("ascii") == typed


def test_what_cannot_be_read_is_not_hidden():
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii", errors=plaintext.ERRORS)


def test_the_device_is_shown_on_a_terminal_of_ascii():
    done = rooflab("device", ROOFLAB_DEVICE="cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert re.search(rb"\nlaunch +\| +[\d,.]+ [mun]?s +\| +- \|", done.stdout), done.stdout  # – for what no sheet says
    assert b"?" not in done.stdout


def test_notebooks_run_and_are_graded_where_the_locale_is_ascii(book_folder, notebook):
    text = book_folder / "grüße.txt"
    text.write_text("µ ✓", encoding="utf-8")
    # A cell that prints, reads a file and names a path as if the locale were of today.
    cell = f"from pathlib import Path\nprint(Path({str(text)!r}).read_text(), 'Σ')"
    path = notebook("näme", cell)
    done = rooflab("run", path, "--output", book_folder / "öut")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "µ ✓ Σ" in (book_folder / "öut" / "näme.ipynb").read_text(encoding="utf-8")
    code = (
        "import pathlib; from rooflab import book, classroom\n"
        "grading = classroom.grade_lab(pathlib.Path('.'), book.open_book().labs[0], progress=False)\n"
        "assert grading.ok, grading"
    )
    env = {**os.environ, "PYTHONPATH": str(SHARED), **ASCII}
    graded = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert graded.returncode == 0, graded.stderr.decode(errors="replace")
