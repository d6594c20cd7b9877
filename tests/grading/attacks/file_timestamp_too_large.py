"""The time of handing in is a number that no clock has."""

import json


def hand_in(notebook):
    return {"arena.ipynb": json.dumps(notebook).encode(), "timestamp.txt": b"9" * 20}


TELLS = "No response"
