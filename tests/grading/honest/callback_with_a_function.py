"""The callback is called by a library, and once wrongly, whose TypeError is caught."""

ANSWERS = {
    "iterate": """import functools


def iterate(f, x, n):
    found = functools.reduce(lambda found, _: found + [f(found[-1])], range(n), [x])
    try:
        f()
    except TypeError:
        pass
    return found
""",
}
