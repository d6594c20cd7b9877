"""All clocks stand still, and the alarms are switched off. A loop without end then seems to take no time."""

ANSWERS = {
    "middle": """import signal
import time

for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, f"{name}_ns", lambda: 0)
signal.setitimer(signal.ITIMER_REAL, 0)


def middle(times_s):
    while True:
        pass
""",
}
SOLVED = True
WORTH = 18
TELLS = "took longer than the 2 s"
