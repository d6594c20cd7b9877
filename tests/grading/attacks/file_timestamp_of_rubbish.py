"""The time at which it was handed in is no time, and is of bytes that are no text."""


def hand_in(notebook):
    import json

    return {"arena.ipynb": json.dumps(notebook).encode(), "timestamp.txt": b"\xff\xfe yesterday, honestly" * 9}


TELLS = "No response"
