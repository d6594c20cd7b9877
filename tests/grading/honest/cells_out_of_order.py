"""The exercises stand in another order, each with its heading and its checks."""

from arena import place


def hand_in(notebook):
    cells = notebook["cells"]
    start, end = place(notebook, "pairs") - 1, place(notebook, "nearest") - 1
    moved = cells[start:end]
    del cells[start:end]
    at = place(notebook, "middle") - 1
    cells[at:at] = moved
    return notebook
