"""There is no cell in the notebook."""


def hand_in(notebook):
    return notebook | {"cells": []}


TELLS = "answers are not in the file"
