"""Random numbers are seeded and drawn, and change nothing for the checks."""

ANSWERS = {
    "nearest": """import random

random.seed(0)
np.random.seed(0)


def nearest(values, target):
    values = list(values)
    random.shuffle(values)
    np.random.shuffle(values)
    return min(values, key=lambda v: (abs(v - target), v))
""",
}
