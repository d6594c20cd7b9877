"""A module is written with %%writefile in an added cell, and imported from the folder of the notebook."""

from arena import code, place

ANSWERS = {
    "middle": """import my_statistics


def middle(times_s):
    return my_statistics.median(times_s)
""",
}
MODULE = """%%writefile my_statistics.py
def median(values):
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
"""


def hand_in(notebook):
    notebook["cells"].insert(place(notebook, "middle"), code(MODULE))
    return notebook
