"""The file is empty."""


def hand_in(notebook):
    return b" \n"


TELLS = "empty"
