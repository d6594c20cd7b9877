"""A file is written and read in a temporary folder, and one in the current folder."""

ANSWERS = {
    "pairs": """import os
import tempfile
from pathlib import Path


def pairs(values, total):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "values.txt")
        path.write_text(" ".join(map(str, values)))
        read = [int(word) for word in path.read_text().split()]
    return sum(a + b == total for k, a in enumerate(read) for b in read[:k])
""",
}
