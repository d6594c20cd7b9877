"""The file's name is of bytes that are no text in any encoding in use. Whoever tells that name fails."""


def hand_in(notebook):
    return {b"\xff\xfe\xc0.ipynb": b"{}", b"\xed\xa0\x80": b"x"}


TELLS = "was handed in"
