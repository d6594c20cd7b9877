"""Which points does nbgrader's own `autograde` give to each honest submission? Writes honest_scores.json.

nbgrader takes minutes for all of them, so that the tests compare with what this script has kept, and ask nbgrader again
for a few. Run it when a submission in honest/ or the arena has changed:

    python tests/grading/record_nbgrader.py
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCORES = HERE / "honest_scores.json"


def scores_of(course, files):
    """Hand these submissions in, let nbgrader grade them, and return {name: {check: points}}."""
    for path in files:
        course.hand_in(course.load(path, solved=True))
    course.nbgrader("autograde", "week1")
    grades = course.grades()
    return {path.stem: {name: told[0] for name, told in sorted(grades[path.stem][0].items())} for path in files}


if __name__ == "__main__":
    import arena

    sys.stdout.write(f"This takes minutes; the scores go to {SCORES.name}.\n")
    with tempfile.TemporaryDirectory() as folder:
        scores = scores_of(arena.Arena(Path(folder)), sorted((HERE / "honest").glob("*.py")))
    SCORES.write_text(json.dumps(scores, indent=1) + "\n")
