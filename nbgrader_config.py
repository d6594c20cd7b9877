"""The classroom: instructor editions in solutions/, student editions in labs/, one assignment for each series.

Read by every ``nbgrader`` command that is started here, and by the generator, so that there is one way to make a
student edition.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from nbconvert.preprocessors import TagRemovePreprocessor
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import DeduplicateIds, NbGraderPreprocessor
from nbgrader.validator import Validator
from nbgrader.validator import read_nb as read_notebook
from traitlets.log import get_logger

c = get_config()  # noqa: F821  (nbgrader puts it there)
root = Path(__file__).resolve().parent

c.CourseDirectory.course_id = "rooflab"
c.CourseDirectory.root = str(root)
c.CourseDirectory.db_url = f"sqlite:///{root / 'gradebook.db'}"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"
# nbgrader copies every other file of solutions/ to the students: the scripts hold the solutions.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "*.py"]

# Model answers and rubrics leave first, before anything is recorded in the gradebook.
c.GenerateAssignment.preprocessors = [TagRemovePreprocessor, *GenerateAssignment.preprocessors.default()]
c.TagRemovePreprocessor.enabled = True
c.TagRemovePreprocessor.remove_cell_tags = {"solution"}
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\nraise NotImplementedError()"}
c.ClearSolutions.text_stub = "YOUR ANSWER HERE"


class LastOfTwins(DeduplicateIds):
    """Grade the last of several copies of a cell; the others become cells without a mark.

    nbgrader 0.9.6 leaves them an empty mark, takes that for one of its first version's, and stops the whole class.
    """

    def preprocess(self, nb, resources):
        """Drop the marks that nbgrader has emptied."""
        nb, resources = super().preprocess(nb, resources)
        for cell in nb.cells:
            if cell.metadata.get("nbgrader") == {}:
                self.log.warning("Of the cells with the same id the last one is graded.")
                del cell.metadata["nbgrader"]
        return nb, resources


def some(names):
    """Name up to three of some cells."""
    return f"({', '.join(names[:3])}{', ...' * (len(names) > 3)})"


class KnownMarks(NbGraderPreprocessor):
    """Say whose file lacks marked cells or has unknown ones, and what to do.

    nbgrader 0.9.6 says nothing of cells that lack, and of unknown ones that the metadata may be corrupted.
    """

    def preprocess(self, nb, resources):
        """Drop unknown marks, and flag the grades of the cells that lack."""
        place = resources["nbgrader"]
        lab, series, student = place["notebook"], place["assignment"], place["student"]
        path = f"submitted/{student}/{series}/{lab}.ipynb"
        with Gradebook(place["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(lab, series)
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
            for grade in gradebook.find_submission_notebook(lab, series, student).grades:
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


def name_strangers(assignment, student, notebooks):
    """Say which files of a submission have a name that no notebook of the assignment has; nbgrader passes them over."""
    known = sorted(path.name for path in (root / "labs" / assignment).glob("*.ipynb"))
    for path in map(Path, notebooks):
        if known and path.name not in known:
            place = path.relative_to(root) if path.is_relative_to(root) else path
            get_logger().warning(
                f"{place} is not graded, because no notebook of {assignment} has this name: "
                f"rename it to {' or '.join(known)}, then autograde again."
            )


def validate(self, filename):
    """Name the cells that were copied with their marks, where nbgrader speaks of corrupted metadata."""
    marked = {}
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


# Not configurable, so replaced, once: JupyterLab reads this file again at each press of its Validate button.
if not hasattr(Validator, "validate_singles"):
    Validator.validate_singles, Validator.validate = Validator.validate, validate

c.Autograde.sanitize_preprocessors = []
for each in Autograde.sanitize_preprocessors.default():
    c.Autograde.sanitize_preprocessors += [LastOfTwins, KnownMarks] if each is DeduplicateIds else [each]
c.Autograde.pre_convert_hook = name_strangers

# A first torch.compile takes 10 s on a quiet machine; 30 s, nbgrader's default, is too near on a busy one.
c.Execute.timeout = 120
c.Execute.startup_timeout = 120
# Cells that only show something need not be run for every student; without them a lab is graded several times as fast.
c.Execute.skip_cells_with_tag = "demo"

# nbgrader calls alembic by its name alone, which is not on the path of a .venv that nobody activated.
if which("alembic") is None:
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# The kernels of a checkout that is not installed find the package too; else every student would score zero.
if find_spec("rooflab") is None:
    paths = [str(root / "shared"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
