"""The file is of the right name, and is a program's binary."""


def hand_in(notebook):
    return b"\x7fELF\x02\x01\x01" + bytes(5000) + b"\xff" * 100


TELLS = "no text"
