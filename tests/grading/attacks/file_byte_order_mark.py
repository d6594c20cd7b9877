"""The file begins with a byte order mark. Its answers are right."""

import json

SOLVED = True
WORTH = 21


def hand_in(notebook):
    return b"\xef\xbb\xbf" + json.dumps(notebook).encode()
