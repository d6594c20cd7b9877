"""The file is JSON, and no notebook: a list, as some programs export."""


def hand_in(notebook):
    return b'[{"cells": []}]'


TELLS = "no notebook"
