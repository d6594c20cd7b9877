"""Processes leave their session and their parent, and sleep. They would be there long after the grader has ended."""

ANSWERS = {
    "primes": """import os
import signal
import subprocess
import time

for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.execvp("sleep", ["@MARK@", "3600"])
        os._exit(0)
subprocess.Popen(["sh", "-c", "exec -a @MARK@ sleep 3600 || sleep 3600"], start_new_session=True)
PRIMES, COUNT = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29], 10
""",
}
SOLVED = True
WORTH = 21
