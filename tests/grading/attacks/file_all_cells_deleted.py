"""There is no cell in the notebook."""


def hand_in(notebook):
    return notebook | {"cells": []}


TELLS = "lacks"
