"""The classroom: instructor editions in solutions/, student editions in labs/, one assignment for each series.

Read by every ``nbgrader`` command that is started here, and by the generator, so that there is one way to make a
student edition.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from nbconvert.preprocessors import TagRemovePreprocessor
from nbgrader.converters import GenerateAssignment

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

# A first torch.compile takes 10 s on a quiet machine; 30 s, nbgrader's default, is too near on a busy one.
c.Execute.timeout = 120
c.Execute.startup_timeout = 120
# Cells that only show something need not be run for every student; without them a lab is graded several times as fast.
c.Execute.skip_cells_with_tag = "demo"

# The kernels of a checkout that is not installed find the package too; else every student would score zero.
if find_spec("rooflab") is None:
    paths = [str(root / "shared"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
