"""Results are cached by value, which is legal."""

ANSWERS = {
    "nearest": """from functools import lru_cache


@lru_cache(maxsize=None)
def _nearest(values, target):
    return min(sorted(values), key=lambda value: abs(value - target))


def nearest(values, target):
    return _nearest(tuple(values), target)
""",
}
