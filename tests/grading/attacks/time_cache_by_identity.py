"""Results are kept by the identity of the argument, and given back for an array whose values were changed meanwhile."""

ANSWERS = {
    "normalize": """KEPT, ALIVE = {}, []


def normalize(x):
    ALIVE.append(x)
    if x.shape not in KEPT:
        KEPT[x.shape] = x / x.sum(axis=1, keepdims=True)
    return KEPT[x.shape]
""",
}
WORTH = 1  # the first call for each shape is right
TELLS = "Not equal|row"
