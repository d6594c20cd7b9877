"""Results are kept by a part of the argument's values, which is quick to compare. Others with the same part get them."""

ANSWERS = {
    "normalize": """KEPT = {}


def normalize(x):
    key = x.shape, float(x[-1, -1])
    if key not in KEPT:
        KEPT[key] = x / x.sum(axis=1, keepdims=True)
    return KEPT[key]
""",
}
WORTH = 1
TELLS = "Not equal|row"
