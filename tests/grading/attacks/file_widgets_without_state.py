"""The metadata of widgets lack their state, at which nbconvert stops. The answers are right."""

SOLVED = True
WORTH = 21


def hand_in(notebook):
    notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"version_major": 2}}
    return notebook
