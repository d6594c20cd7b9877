"""A thread ends the process a moment after the cell has succeeded, in the middle of whatever is done then."""

ANSWERS = {
    "pairs": """import os
import threading

threading.Timer(0.3, os._exit, [0]).start()


def pairs(values, total):
    import time

    time.sleep(1)
    return 2
""",
}
WORTH = 0
TELLS = "ended"
