"""Every cell shows hundreds of large pictures that are none. The result would be too large to hand over."""

from arena import code, place

CELL = """from IPython.display import display

PNG = b"\\x89PNG\\r\\n\\x1a\\n" + bytes(3_900_000)
for _ in range(12):
    display({"image/png": PNG}, raw=True)
"""


def hand_in(notebook):
    at = place(notebook, "primes")
    notebook["cells"][at:at] = [code(CELL + f"# {number}\n") for number in range(6)]
    return notebook


SOLVED = True
WORTH = 21
