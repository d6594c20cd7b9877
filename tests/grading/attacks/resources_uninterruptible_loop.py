"""A loop ignores all signals and all exceptions. Nothing that asks it to end would be heard."""

ANSWERS = {
    "middle": """import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))


def middle(times_s):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""",
}
SOLVED = True
WORTH = 18
TELLS = "took longer than the 2 s"
