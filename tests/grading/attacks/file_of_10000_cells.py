"""The notebook has ten thousand cells, all of which would be run."""

from arena import code


def hand_in(notebook):
    notebook["cells"] += [code(f"print({number})") for number in range(10_000)]
    return notebook


TELLS = "10,0.. cells"
