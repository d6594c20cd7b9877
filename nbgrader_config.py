"""The classroom: instructor editions in solutions/, student editions in labs/, one assignment for each series.

Read by every ``nbgrader`` command that is started here, and by the generator. What it says is shared with the courses
that ``rooflab course`` makes: see shared/rooflab/grading/course_config.py.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

root = Path(__file__).resolve().parent

# The labs of a checkout need its own package, in this process and in kernels, whether or not one is installed; without
# it every student would score zero.
package = root / "shared"
found = find_spec("rooflab")
if (package / "rooflab").is_dir() and (found is None or not str(found.origin).startswith(str(package))):
    sys.path.insert(0, str(package))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))

from rooflab.grading.course_config import configure  # noqa: E402

c = get_config()  # noqa: F821  (nbgrader puts it there)
configure(c, root, course_id="rooflab", source="solutions", release="labs")
