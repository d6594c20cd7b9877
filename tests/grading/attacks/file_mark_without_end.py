"""A cell bears a mark of half a million letters. What is told of it would keep the table of the class busy for hours."""

from arena import code


def hand_in(notebook):
    notebook["cells"].append(code("1", nbgrader={"grade_id": "\u4e2d" * 500_000, "solution": True}))
    return notebook


TELLS = "does not know the mark"
