"""The notebook is a pipe that nobody writes to, and so is the time at which it was handed in. Readers wait for ever."""

import os


def hand_in(notebook):
    return {"arena.ipynb": os.mkfifo, "timestamp.txt": os.mkfifo}


TELLS = "no file"
