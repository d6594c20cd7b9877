"""A thread of the student's own goes on in the background, harmlessly."""

ANSWERS = {
    "primes": """import threading
import time

BEATS = []


def beat():
    while True:
        BEATS.append(1)
        time.sleep(0.05)


threading.Thread(target=beat, daemon=True).start()
PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
COUNT = len(PRIMES)
""",
}
