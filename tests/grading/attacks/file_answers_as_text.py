"""The answers' cells are made cells of text and raw cells, their sources lists in lists and numbers."""

from arena import named


def hand_in(notebook):
    cells = named(notebook)
    cells["pairs"]["cell_type"] = "markdown"
    cells["middle"]["cell_type"] = "nothing"
    cells["iterate"]["source"] = [["def iterate(): pass"], 5, None]
    cells["nearest"]["source"] = {"code": "nearest = 1"}
    cells["primes"]["source"] = None
    return notebook


TELLS = "No response|not defined"
