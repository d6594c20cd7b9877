"""Global variables count and collect, and are changed by the functions."""

ANSWERS = {
    "pairs": """CALLS = 0
SEEN = {}


def pairs(values, total):
    global CALLS
    CALLS += 1
    SEEN[CALLS] = list(values), total
    found = 0
    for place, value in enumerate(SEEN[CALLS][0]):
        found += SEEN[CALLS][0][place + 1 :].count(total - value)
    return found
""",
}
