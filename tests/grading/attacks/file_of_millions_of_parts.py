"""The file has sixty million bytes of empty lists, each of which takes far more memory than its two brackets."""


def hand_in(notebook):
    return b'{"cells": [' + b"[]," * 20_000_000 + b"[]]}"


TELLS = "millions of parts"
