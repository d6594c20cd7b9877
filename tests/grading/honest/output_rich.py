"""Cells end in values that have rich displays: HTML, LaTeX, a picture, and a class with its own display."""

from arena import code

CELLS = [
    "from IPython.display import HTML, Math, display\n\ndisplay(HTML('<b>bold</b>'), Math('x^2'))",
    "class Shown:\n    def _repr_html_(self):\n        return '<i>shown</i>'\n\n\nShown()",
    "np.arange(12).reshape(3, 4)",
]


def hand_in(notebook):
    notebook["cells"][4:4] = [code(source) for source in CELLS]
    return notebook
