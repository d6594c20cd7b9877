"""What does nbgrader do with marks that were copied, lost or made up, beyond what it does by itself?

Loaded by the configuration of a course only: it needs nbgrader.

>>> some(["a", "b", "c", "d"])
'(a, b, c, ...)'
"""

from __future__ import annotations

from typing import Any

from nbgrader.api import Gradebook
from nbgrader.preprocessors import DeduplicateIds, NbGraderPreprocessor
from nbgrader.validator import Validator
from nbgrader.validator import read_nb as read_notebook

__all__ = ["PRIVATE", "DropPrivate", "KnownMarks", "LastOfTwins", "name_copies", "some"]

PRIVATE = "rooflab"  # what an instructor keeps to oneself stands under this name in a notebook's metadata


class DropPrivate(NbGraderPreprocessor):
    """Take out of a student edition what only the grader may know, such as a seed."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Drop the private metadata."""
        nb.metadata.pop(PRIVATE, None)
        return nb, resources


class LastOfTwins(DeduplicateIds):
    """Grade the last of several copies of a cell; the others become cells without a mark.

    nbgrader 0.9.6 leaves them an empty mark, takes that for one of its first version's, and stops the whole class.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Drop the marks that nbgrader has emptied."""
        nb, resources = super().preprocess(nb, resources)
        for cell in nb.cells:
            if cell.metadata.get("nbgrader") == {}:
                self.log.warning("Of the cells with the same id the last one is graded.")
                del cell.metadata["nbgrader"]
        return nb, resources


def some(names: list[str]) -> str:
    """Name up to three of some cells."""
    return f"({', '.join(names[:3])}{', ...' * (len(names) > 3)})"


class KnownMarks(NbGraderPreprocessor):
    """Say whose file lacks marked cells or has unknown ones, and what to do.

    nbgrader 0.9.6 says nothing of cells that lack, and of unknown ones that the metadata may be corrupted.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Drop unknown marks, and flag the grades of the cells that lack."""
        place = resources["nbgrader"]
        lab, assignment, student = place["notebook"], place["assignment"], place["student"]
        path = f"submitted/{student}/{assignment}/{lab}.ipynb"
        with Gradebook(place["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(lab, assignment)
            lacking = [cell.name for cell in notebook.source_cells]
            unknown = []
            for cell in nb.cells:
                name = cell.metadata.get("nbgrader", {}).get("grade_id")
                if name in lacking:
                    lacking.remove(name)
                elif "nbgrader" in cell.metadata:
                    unknown.append(str(name))
                    del cell.metadata["nbgrader"]
            graded = {cell.name for cell in notebook.grade_cells} & set(lacking)
            for grade in gradebook.find_submission_notebook(lab, assignment, student).grades:
                if grade.name in graded:
                    grade.auto_score, grade.needs_manual_grade = 0, True
            gradebook.db.commit()
        if unknown:
            told = f"{path} has marks that this lab does not know {some(unknown)}; their cells are run and not graded."
            self.log.warning(told)
        if lacking:
            ones = "ones get 0 points and are" if len(graded) != 1 else "one gets 0 points and is"
            self.log.warning(
                f"{path} lacks {len(lacking)} marked cells {some(lacking)}; the {len(graded)} graded {ones} flagged "
                f"for you. Ask {student} to put the answers into a fresh {lab}.ipynb, then autograde with --force."
            )
        return nb, resources


def _validate(self: Any, filename: str) -> Any:
    """Name the cells that were copied with their marks, where nbgrader speaks of corrupted metadata."""
    marked: dict[Any, list[Any]] = {}
    for cell in read_notebook(filename, as_version=4).cells:
        marks = cell.metadata.get("nbgrader") or {}
        if marks.get("grade") or marks.get("solution") or marks.get("locked"):
            marked.setdefault(marks.get("grade_id"), []).append(cell)
    told = []
    for name, cells in marked.items():
        if len(cells) > 1:
            # nbgrader cuts lines after 87 characters.
            sentence = (
                f"The cell {name!r} is here {len(cells)} times: a copied cell keeps its mark.\n"
                "Delete all but one of them, then validate again. Text that you want to keep\n"
                "goes into a new cell."
            )
            told.append({"source": cells[-1].source.strip(), "error": sentence, "raw_error": sentence})
    return {"failed": told} if told else Validator.validate_singles(self, filename)


def name_copies() -> None:
    """Let validation name copied cells: it is not configurable, so it is replaced.

    Once: JupyterLab reads a configuration again at each press of its Validate button.
    """
    if not hasattr(Validator, "validate_singles"):
        Validator.validate_singles, Validator.validate = Validator.validate, _validate
