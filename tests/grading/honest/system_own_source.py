"""A function reads its own source with inspect."""

ANSWERS = {
    "nearest": """import inspect


def nearest(values, target):
    assert "def nearest" in inspect.getsource(nearest)
    return min(values, key=lambda v: (abs(v - target), v))
""",
}
