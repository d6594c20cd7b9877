"""An answer begins with a magic line and takes the output of a shell line."""

ANSWERS = {
    "nearest": """%matplotlib inline
words = !echo one two


def nearest(values, target):
    assert words[0].split() == ["one", "two"]
    return sorted(values, key=lambda v: (abs(v - target), v))[0]
""",
}
