"""Functions are instances of classes, with state and a helper class."""

ANSWERS = {
    "middle": """class Median:
    def __init__(self, empty):
        self.empty = empty

    def __call__(self, times_s):
        if not len(times_s):
            raise self.empty("empty")
        ordered = sorted(times_s)
        return (ordered[~(len(ordered) // 2)] + ordered[len(ordered) // 2]) / 2


middle = Median(ValueError)
""",
    "nearest": """class Distance:
    __slots__ = ("key", "value")

    def __init__(self, value, target):
        self.value, self.key = value, (abs(value - target), value)

    def __lt__(self, other):
        return self.key < other.key


def nearest(values, target):
    return min(Distance(value, target) for value in values).value
""",
}
