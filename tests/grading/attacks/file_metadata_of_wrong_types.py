"""Metadata are of other types than they should be, everywhere: numbers, texts, lists, nothing."""

WRONG = [None, 5, "x", [], [[]], True, {"nbgrader": 5}, {"nbgrader": {"grade_id": 7}}, {"nbgrader": {"grade_id": None}}]


def hand_in(notebook):
    for number, cell in enumerate(notebook["cells"] * 1):
        cell["metadata"] = WRONG[number % len(WRONG)]
        cell["id"], cell["outputs"], cell["execution_count"] = number, "none", []
    notebook["cells"] += [None, 5, "cell", [], {}, {"cell_type": 7}, {"source": 7}]
    return notebook | {"metadata": [1], "nbformat": "four", "nbformat_minor": None}


TELLS = "lacks"
