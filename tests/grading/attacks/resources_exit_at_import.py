"""A module that the student wrote in a cell ends the process when it is imported."""

ANSWERS = {
    "middle": """from pathlib import Path

Path("mine.py").write_text("import os\\nos._exit(0)\\n")
import mine


def middle(times_s):
    return 2.0
""",
}
SOLVED = True
WORTH = 18
TELLS = "ended"
