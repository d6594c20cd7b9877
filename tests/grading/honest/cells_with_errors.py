"""Cells that were added end in errors: of syntax, of names, and an assertion."""

from arena import code


def hand_in(notebook):
    wrong = ["1 / 0", "def broken(:", "undefined_name", "assert False, 'on purpose'", "raise SystemExit(3)"]
    notebook["cells"] += [code(source) for source in wrong]
    return notebook
