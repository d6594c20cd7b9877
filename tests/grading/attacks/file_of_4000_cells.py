"""The notebook has four thousand cells, fewer than are taken, each of which is slow."""

from arena import code

SOLVED = True
WORTH = 21


def hand_in(notebook):
    notebook["cells"] += [code(f"import time; time.sleep(0.5); {number}") for number in range(4000)]
    return notebook


TELLS = "everything|No response|took longer|"
