"""Many processes, each in a session of its own, keep the processors busy. The next student would run out of time."""

ANSWERS = {
    "primes": """import os
import time

for _ in range(40):
    if os.fork() == 0:
        try:
            os.setsid()
            os.sched_setaffinity(0, range(os.cpu_count()))
        except OSError:
            pass
        while True:
            pass
time.sleep(1)
PRIMES, COUNT = [], 0
""",
}
TELLS = "the first three|took longer"
