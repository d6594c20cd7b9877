"""An answer was cut and pasted into a new cell, which has no mark, and its own cell is gone."""

from arena import code, place


def hand_in(notebook):
    at = place(notebook, "pairs")
    source = "".join(notebook["cells"][at]["source"])
    notebook["cells"][at] = code(source)
    return notebook
