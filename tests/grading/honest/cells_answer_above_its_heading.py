"""An answer was moved above its heading and away from its checks, to the end of the exercise before."""

from arena import place


def hand_in(notebook):
    cells = notebook["cells"]
    cells.insert(place(notebook, "account") - 1, cells.pop(place(notebook, "pairs")))
    return notebook
