"""An exception of the student's own derives from the one that is asked for."""

ANSWERS = {
    "middle": """class NoTimes(ValueError):
    def __init__(self, count, wanted):
        super().__init__(count, wanted)


def middle(times_s):
    if not times_s:
        raise NoTimes(0, 1)
    return float(np.median(times_s))
""",
}
