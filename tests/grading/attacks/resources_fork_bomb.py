"""Processes start processes without end, at once and again when they are killed. The machine would stand still."""

ANSWERS = {
    "middle": """import os


def middle(times_s):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
}
SOLVED = True
WORTH = 18
TELLS = "took longer|processes|ended|killed|closed"
