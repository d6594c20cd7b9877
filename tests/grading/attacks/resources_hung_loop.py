"""A cell never ends. Everything that comes after it would never be graded."""

ANSWERS = {"middle": "while True:\n    pass\n"}
SOLVED = True
WORTH = 18
TELLS = "took longer than the 2 s"
