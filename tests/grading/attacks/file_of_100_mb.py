"""The notebook has 100 MB, most of it an output."""

import json


def hand_in(notebook):
    return json.dumps(notebook).encode() + b" " * 100_000_000


TELLS = "100 MB"
