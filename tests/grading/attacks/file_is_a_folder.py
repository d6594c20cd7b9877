"""The notebook is a folder of that name."""


def hand_in(notebook):
    return {"arena.ipynb/inside.ipynb": b"{}"}


TELLS = "no file"
