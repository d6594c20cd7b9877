"""Right answers in unusual style lose no point, and get the points that nbgrader's own `autograde` gives them.

All of honest/ is graded in one batch. See arena.py for the form of a submission.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).resolve().parent
FILES = sorted((HERE / "honest").glob("*.py"))
# Of different kinds, and quick: nbgrader needs about three seconds for each.
AGAIN = ("style_plain", "cells_out_of_order", "output_warnings_on_stderr", "result_numpy_scalars", "file_vscode")

pytestmark = [pytest.mark.xdist_group("honest"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def batch(new_arena):
    """Grade all honest submissions."""
    import arena as making

    arena = new_arena("honest")
    for path in FILES:
        arena.hand_in(arena.load(path, solved=True))
    code, told = arena.run("rooflab", "grade", making.ASSIGNMENT, "--jobs", "2")
    assert code == 0, told[-4000:]
    kept = json.loads((HERE / "honest_scores.json").read_text())
    return SimpleNamespace(grades=arena.grades(), points=making.POINTS, kept=kept, written=making.WRITTEN)


def test_the_corpus_is_large_and_its_scores_are_kept(batch):
    assert len(FILES) >= 42
    assert set(batch.kept) == {path.stem for path in FILES}, "run tests/grading/record_nbgrader.py"


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_a_right_answer_loses_no_point(batch, name):
    points, comments = batch.grades[name]
    assert {check: told[0] for check, told in points.items() if check in batch.points} == batch.points, comments
    assert {check: told[0] for check, told in points.items()} == batch.kept[name]
    # Only the answer in words waits for a person.
    assert [check for check, told in points.items() if told[1]] == [batch.written]


def test_nbgrader_gives_what_was_kept(batch, new_arena):
    from record_nbgrader import scores_of

    found = scores_of(new_arena("nbgrader"), [HERE / "honest" / f"{name}.py" for name in AGAIN])
    assert found == {name: batch.kept[name] for name in AGAIN}
