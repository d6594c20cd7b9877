"""Helpers stand in cells that were added above the answers."""

from arena import code, place

ANSWERS = {"middle": "def middle(times_s):\n    return center(check_times(times_s))\n"}
ADDED = """def check_times(times_s):
    if len(times_s) == 0:
        raise ValueError("nothing to look at")
    return sorted(times_s)


def center(ordered):
    low, high = (len(ordered) - 1) // 2, len(ordered) // 2
    return (ordered[low] + ordered[high]) / 2
"""


def hand_in(notebook):
    notebook["cells"].insert(place(notebook, "middle"), code(ADDED))
    return notebook
