"""Files are opened until no more can be. Whoever needs one in the same process would fail."""

ANSWERS = {
    "middle": """KEPT = []


def middle(times_s):
    while True:
        KEPT.append(open("/dev/null"))
""",
}
SOLVED = True
WORTH = 18
TELLS = "Too many open files|OSError"
