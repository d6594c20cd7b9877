"""The notebook was written on Windows: CRLF in the file and in the sources, and a byte order mark."""

import json


def hand_in(notebook):
    for cell in notebook["cells"]:
        cell["source"] = [line.replace("\n", "\r\n") for line in cell["source"]]
    return json.dumps(notebook, indent=1).replace("\n", "\r\n").encode("utf-8")
