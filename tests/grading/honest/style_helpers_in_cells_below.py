"""A function uses a helper that is defined in a cell below it, but above the check."""

from arena import code, place

ANSWERS = {"iterate": "def iterate(f, x, n):\n    return list(walk(f, x, n))\n"}
ADDED = """def walk(f, x, n):
    yield x
    if n:
        yield from walk(f, f(x), n - 1)
"""


def hand_in(notebook):
    notebook["cells"].insert(place(notebook, "iterate") + 1, code(ADDED))
    return notebook
