"""The notebook is of format 4.0, which has no identifiers of cells."""


def hand_in(notebook):
    for cell in notebook["cells"]:
        cell.pop("id", None)
    return notebook | {"nbformat_minor": 0}
