"""The student's process does not read what it is sent, or one byte at a time. The grader would wait for it."""

ANSWERS = {
    "normalize": """import os

os.kill(os.getpid(), 19)


def normalize(x):
    return x
""",
}
SOLVED = True
WORTH = 18
TELLS = "took longer|ended"
