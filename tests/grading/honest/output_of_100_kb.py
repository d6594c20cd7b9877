"""A cell and a call print 100 kB each."""

ANSWERS = {
    "middle": """print("x" * 100_000)


def middle(times_s):
    print("\\n".join(["y" * 99] * 1000))
    if not times_s:
        raise ValueError
    return float(np.median(times_s))
""",
}
