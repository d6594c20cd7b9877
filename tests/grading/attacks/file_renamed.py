"""The file has another name, as a second download gets it."""


def hand_in(notebook):
    import json

    return {"arena (1).ipynb": json.dumps(notebook).encode(), "notes.txt": b"see (1)"}


TELLS = r"arena \(1\).ipynb"
